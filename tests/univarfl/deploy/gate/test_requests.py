"""What the gate knows of Flower by name; a failure here names what a new version has changed."""

import inspect

from flwr.common import constant
from flwr.proto.fleet_pb2 import PullMessagesResponse
from flwr.supercore import constant as supercore
from flwr.supercore import runtime_version_compatibility
from flwr.supercore.error.base import ApiErrorCode
from flwr.supercore.error.catalog import API_ERROR_MAP
from flwr.supercore.protobuf.constants import PROTOBUF_MEDIA_TYPE
from flwr.supercore.retry import http_retry
from flwr.supernode.fleet_http_client import FleetHttpClient

from univarfl.deploy.gate import authentication, holding, requests


def test_the_routes_are_those_that_a_supernode_asks_for() -> None:
    source = inspect.getsource(FleetHttpClient)
    asked = {line.split('"')[1] for line in source.splitlines() if "path=" in line}
    assert asked == {requests.PREFIX.decode() + route for route in requests.ROUTES}
    assert holding.RECEIVED | holding.LEFT < requests.ROUTES


def test_the_headers() -> None:
    names = (
        supercore.FLEET_HTTP_PUBLIC_KEY_HEADER, constant.TIMESTAMP_HEADER,
        supercore.FLEET_HTTP_SIGNATURE_HEADER,
    )  # fmt: skip
    assert tuple(name.encode() for name in names) == requests.AUTHENTICATION
    metadata = runtime_version_compatibility.RuntimeVersionMetadata.from_local_component("x")
    assert {name.encode() for name, _ in metadata.as_metadata()} == set(requests.FORWARDED)
    assert supercore.VERSION_INCOMPATIBILITY_MESSAGE_METADATA_KEY.encode() in requests.RETURNED
    assert PROTOBUF_MEDIA_TYPE.encode() == requests.MEDIA_TYPE


def test_the_window_of_timestamps_and_the_size_of_a_piece() -> None:
    assert constant.SYSTEM_TIME_TOLERANCE == authentication.AHEAD
    assert constant.TIMESTAMP_TOLERANCE + constant.SYSTEM_TIME_TOLERANCE == authentication.BEHIND
    assert constant.FLWR_PRIVATE_MAX_ARRAY_CHUNK_SIZE * 2 < requests.LARGEST_REQUEST


def test_no_message_is_an_empty_body() -> None:
    assert PullMessagesResponse().SerializeToString() == b""


def test_a_supernode_repeats_what_is_answered_with_503_and_prints_412() -> None:
    assert {502, 503, 504} <= http_retry._RETRYABLE_STATUS_CODES
    failed = API_ERROR_MAP[ApiErrorCode.FLEET_NODE_ACTIVATION_FAILED]
    assert failed.http_status_code == authentication.NOT_ADMITTED
    assert int(ApiErrorCode.FLEET_NODE_ACTIVATION_FAILED) == authentication.NOT_REGISTERED
    known = {int(code) for code in ApiErrorCode}
    assert not known & {authentication.CLOCK_DIFFERS, authentication.KEY_REVOKED}
