"""A run's own Ray, which listens on every network interface."""

import grpc
import pytest

from univarfl.engines.superlink import SuperLink

CLUSTER_ID = "/ray.rpc.NodeInfoGcsService/GetClusterId"


@pytest.mark.slow
def test_ray_answers_nobody_without_the_runs_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with SuperLink(ray_cpus=1) as superlink:
        superlink.wait_for_ray()
        given = superlink._variables
        with grpc.insecure_channel(given["RAY_ADDRESS"]) as channel:
            ask = channel.unary_unary(CLUSTER_ID)
            for token in ("", "Bearer 0000"):
                with pytest.raises(grpc.RpcError) as refused:
                    ask(b"", timeout=20, metadata=[("authorization", token)])
                assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
            own = [("authorization", f"Bearer {given['RAY_AUTH_TOKEN']}")]
            assert ask(b"", timeout=20, metadata=own)
