"""The dashboard's answers: who gets one, and what damaged and hostile records give."""

import json
import os
import shutil
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import HTTPCookieProcessor, build_opener, urlopen

import pytest
from starlette.testclient import TestClient

from server_app.runs.lock import hold
from server_app.runs.records.tables import CLIENT_COLUMNS, CLIENTS, EVENTS, ROUNDS
from tests.browser import dashboard
from tests.server_app.runs.recorded import record
from univarfl.report.dashboard import details, overview
from univarfl.report.dashboard.access import HEADERS, cookie_of
from univarfl.report.dashboard.app import application
from univarfl.report.dashboard.serve import address as printed_address

TOKEN = "a-token-of-the-test"
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "PAUSE_SECONDS", 0.0)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("recorded")
    for name, words in (("one", ["method=fedavg"]), ("two", ["method=moon"])):
        run = record(place, name, [*words, "engine=inprocess"], [0.1, 0.4, 0.6])
        reopen(run, results={"test": {"accuracy": 0.6}})
    return place


@pytest.fixture
def runs(recorded: Path, tmp_path: Path) -> Path:
    return shutil.copytree(recorded, tmp_path / "runs")


def browser(runs: Path, host: str = "127.0.0.1", token: str = TOKEN) -> TestClient:
    """Return a browser that has opened the printed address."""
    page = stranger(runs, host, token)
    page.cookies.set(cookie_of(token), token)
    return page


def stranger(runs: Path, host: str = "127.0.0.1", token: str = TOKEN) -> TestClient:
    """Return a browser that does not know the token."""
    return TestClient(application(runs, host, token), f"http://{host}:8600")


def status_of(page: TestClient, name: str) -> str:
    found = {run["name"]: run["cells"][0] for run in page.get("/api/runs").json()["runs"]}
    return str(found[name])


def reopen(run: Path, **changes: object) -> None:
    """Change entries of a run.json."""
    content = json.loads((run / "run.json").read_text()) | changes
    (run / "run.json").write_text(json.dumps(content))


def test_the_runs_are_listed_with_the_settings_in_which_they_differ(runs: Path) -> None:
    found = browser(runs).get("/api/runs").json()
    assert found["columns"] == ["status", "accuracy, %", "method"]
    assert [[run["name"], *run["cells"]] for run in found["runs"]] == [
        ["one", "completed", "60.0", "FedAvg"],
        ["two", "completed", "60.0", "MOON"],
    ]
    one = browser(runs / "one").get("/api/runs").json()
    assert [run["name"] for run in one["runs"]] == ["one"]


def test_an_answer_is_sent_again_only_when_a_record_has_changed(runs: Path) -> None:
    page = browser(runs)
    for address in ("/api/runs", "/api/runs/one"):
        tag = page.get(address).headers["etag"]
        assert page.get(address, headers={"If-None-Match": tag}).status_code == 304
        reopen(runs / "one", status="failed", reason=f"failed for {address}")
        after = page.get(address, headers={"If-None-Match": tag})
        assert (after.status_code, f"failed for {address}" in after.text) == (200, True)


def test_a_run_has_its_curves_over_rounds_seconds_and_megabytes(runs: Path) -> None:
    reopen(runs / "one", reply_bytes=3_000_000)
    found = browser(runs).get("/api/runs/one").json()
    assert found["series"]["test accuracy"] == {
        "label": "test accuracy, %",
        "round": [0, 1, 2],
        "value": [10.0, 40.0, 60.0],
    }
    assert found["elapsed"] == [[0, 0, 0], [1, 1.0, 24.0], [2, 2.0, 48.0]]
    assert found["settings"]["method.name"] == "fedavg"
    reopen(runs / "one", request_bytes=1_000_000)  # a masked reply is larger than a request
    with (runs / "one" / ROUNDS).open("a") as file:
        file.write("3,train,seconds,1e308\r\n4,train,seconds,1e308\r\n")
    elapsed = browser(runs).get("/api/runs/one").json()["elapsed"]
    assert elapsed[:3] == [[0, 0, 0], [1, 1.0, 16.0], [2, 2.0, 32.0]]
    assert elapsed[-1] == [4, None, 32.0]
    unknown = browser(runs).get("/api/runs/two").json()["elapsed"]
    assert [row[2] for row in unknown] == [None] * 3


def test_a_run_that_goes_on_is_followed_until_it_is_killed(runs: Path) -> None:
    page, run = browser(runs), runs / "one"
    reopen(run, status="running")
    lock = hold(run)
    assert status_of(page, "one") == "running 2/2"
    with (run / ROUNDS).open("a") as file:
        file.write("3,test,accuracy,0.7\r\n4,test,accuracy,0.")  # the last row is half written
    found = page.get("/api/runs/one").json()
    assert found["series"]["test accuracy"]["round"] == [0, 1, 2, 3]
    assert found["problems"] == []
    lock.release()
    assert status_of(page, "one") == "killed 2/2"
    assert page.get("/api/runs/one").json()["status"] == "killed 2/2"


def test_runs_come_and_go_while_the_page_is_open(runs: Path) -> None:
    page = browser(runs)
    assert page.get("/api/runs/two").status_code == 200
    shutil.rmtree(runs / "two")
    assert page.get("/api/runs/two").status_code == 404
    shutil.rmtree(runs)
    assert page.get("/api/runs").json()["runs"] == []
    record(runs, "three", [], [0.1, 0.2])
    assert status_of(page, "three") == "completed"


def test_clients_sites_failures_and_events_are_summed(runs: Path) -> None:
    rows = [
        "1,0,alpha,ok,,10,2.0,cpu",
        "1,1,alpha,failed,no memory,0,0,cpu",
        "2,0,alpha,ok,,10,4.0,cpu",
        "2,2,beta,failed,'=1+1,0,0,cpu",
    ]
    (runs / "one" / CLIENTS).write_text("\n".join([",".join(CLIENT_COLUMNS), *rows, ""]))
    (runs / "one" / EVENTS).write_text("time,round,site,event\nnow,2,beta,site beta was lost\n")
    found = browser(runs).get("/api/runs/one").json()
    assert found["clients"] == [
        ["0", "alpha", 2, 0, 20, 3.0, ""],
        ["1", "alpha", 0, 1, 0, None, "no memory"],
        ["2", "beta", 0, 1, 0, None, "=1+1"],
    ]
    assert found["sites"] == [
        ["alpha", 2, 2, 1, 20, 3.0, "no memory"],
        ["beta", 1, 0, 1, 0, None, "=1+1"],
    ]
    assert found["failures"] == [["1", "1", "alpha", "no memory"], ["2", "2", "beta", "=1+1"]]
    assert found["events"] == [["now", "2", "beta", "site beta was lost"]]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("run.json", b""),
        ("run.json", b"[" * 200_000),
        ("run.json", b"[1, 2]"),
        ("run.json", b'{"config": null, "status": 3}'),
        ("run.json", b'{"config": {"seed": NaN}}'),
        (ROUNDS, b"\xff\xfe\x00"),
        (ROUNDS, b'round,split,metric,value\n1,test,accuracy,"0.5\n'),
        (ROUNDS, b"round,split,metric,value\n" + b"9" * 5000 + b",test,accuracy,0.5\n"),
        (ROUNDS, b"round,split,metric,value\n1,test,accuracy,7\n1,train,ce,inf\n"),
        (ROUNDS, b"round,split,metric,value\n1,test,loss,nan\n"),
        (CLIENTS, b"round,client\n1,2\n"),
        (CLIENTS, ",".join(CLIENT_COLUMNS).encode() + b"\n1,1,a,ok,,1e999,nan,cpu\n"),
        (EVENTS, b"a" * 200_000 + b"\n"),
    ],
)
def test_a_damaged_file_leaves_the_rest_of_the_page(runs: Path, file: str, content: bytes) -> None:
    (runs / "one" / file).write_bytes(content)
    page = browser(runs)
    assert status_of(page, "two") == "completed"
    assert page.get("/api/runs/one").status_code == 200


def test_a_number_that_json_lacks_is_no_value(runs: Path) -> None:
    with (runs / "one" / ROUNDS).open("a") as file:
        file.write("3,test,loss,nan\r\n")
    assert browser(runs).get("/api/runs/one").json()["series"]["test loss"]["value"][-1] is None


@pytest.mark.parametrize(
    "name", ["..", "%2e%2e", "..%2fsecret", "one%2f..%2f..%2fsecret", "%2fetc", "one%00", "linked"]
)
def test_only_listed_runs_are_read(runs: Path, tmp_path: Path, name: str) -> None:
    record(tmp_path, "secret", [], [0.1, 0.9])
    (runs / "linked").symlink_to(tmp_path / "secret")
    page = browser(runs)
    assert page.get(f"/api/runs/{name}").status_code == 404
    assert {run["name"] for run in page.get("/api/runs").json()["runs"]} == {"one", "two"}


@pytest.mark.parametrize("file", [ROUNDS, CLIENTS, EVENTS, "run.json"])
def test_a_file_that_is_a_link_or_a_pipe_is_not_read(runs: Path, tmp_path: Path, file: str) -> None:
    (tmp_path / "private").write_text("round,split,metric,value\n1,test,accuracy,0.123456\n")
    for make in (lambda path: path.symlink_to(tmp_path / "private"), os.mkfifo):
        (runs / "one" / file).unlink(missing_ok=True)
        make(runs / "one" / file)
        found = browser(runs).get("/api/runs/one")
        assert found.status_code == 200
        assert any(problem.startswith(file) for problem in found.json()["problems"])
        assert "0.123456" not in found.text


@pytest.mark.parametrize("path", ["/web/../write.py", "/web/..%2fwrite.py", "/web/%2e%2e/write.py"])
def test_only_the_files_of_the_page_are_served(runs: Path, path: str) -> None:
    assert browser(runs).get(path).status_code == 404
    assert browser(runs).get("/web/tables.js").status_code == 200


@pytest.mark.parametrize(
    ("listens", "host", "code"),
    [
        ("127.0.0.1", "127.0.0.1:8600", 200),
        ("127.0.0.1", "localhost:1234", 200),  # the other end of an SSH tunnel
        ("127.0.0.1", "[::1]:8600", 200),
        ("127.0.0.1", "evil.example", 421),
        ("127.0.0.1", "127.0.0.1.evil.example:8600", 421),
        ("127.0.0.1", "192.168.1.7:8600", 421),
        ("127.0.0.1", "", 421),
        ("127.0.0.1", "[", 421),
        ("192.168.1.7", "192.168.1.7:8600", 200),
        ("0.0.0.0", "192.168.1.7:8600", 200),
        ("0.0.0.0", "evil.example", 421),
    ],
)
def test_a_request_for_another_host_is_refused(
    runs: Path, listens: str, host: str, code: int
) -> None:
    cookie = {"Cookie": f"{cookie_of(TOKEN)}={TOKEN}"}
    for path in ("/", "/api/runs", "/web/tables.js"):
        answer = stranger(runs, listens).get(path, headers={"Host": host, **cookie})
        assert answer.status_code == code


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "192.168.1.7"])
def test_without_the_token_nothing_is_answered(runs: Path, host: str) -> None:
    page = stranger(runs, host)
    for address in ("/", "/api/runs", "/api/runs/one", "/web/tables.js", "/?token=", "/?token=é"):
        assert page.get(address).status_code == 401, address
        assert page.get(address, headers={"Cookie": f"{cookie_of(TOKEN)}=x"}).status_code == 401
    first = page.get(f"/?token={TOKEN}", follow_redirects=False)
    assert (first.status_code, first.headers["location"]) == (303, "/")
    cookie = first.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert page.get("/api/runs").status_code == 200  # the browser has kept the cookie


def test_a_second_dashboard_of_the_host_leaves_the_first_ones_cookie(runs: Path) -> None:
    first, second = (stranger(runs, "192.168.1.7", token) for token in (TOKEN, "another token"))
    first.get(f"/?token={TOKEN}")
    second.cookies = first.cookies  # a browser has one set for all ports of a host
    assert second.get("/api/runs").status_code == 401
    second.get("/?token=another token")
    assert second.get("/api/runs").status_code == 200
    assert first.get("/api/runs").status_code == 200


def test_a_browser_is_told_to_run_nothing_of_a_record(runs: Path) -> None:
    reopen(runs / "one", status="failed", reason=SCRIPT)
    (runs / SCRIPT.replace("/", "_")).mkdir()
    page = browser(runs)
    for address in ("/", "/api/runs", "/api/runs/one", "/web/tables.js", "/none"):
        answer = page.get(address)
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        if address.startswith("/api"):
            assert answer.headers["content-type"] == "application/json"
        else:
            assert SCRIPT not in answer.text
    assert "'unsafe" not in HEADERS["Content-Security-Policy"]
    assert page.post("/api/runs").status_code == 405


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "192.168.1.7"])
def test_the_printed_address_has_the_token(host: str) -> None:
    name = f"[{host}]" if ":" in host else host
    assert printed_address(host, 8600, "secret") == f"http://{name}:8600/?token=secret"


def test_another_user_of_the_machine_reads_nothing(runs: Path) -> None:
    with dashboard(runs) as (place, _):
        open_to_all, _, token = place.partition("?token=")
        assert len(token) > 40
        with pytest.raises(HTTPError, match="401"):
            urlopen(f"{open_to_all}api/runs")
        opener = build_opener(HTTPCookieProcessor())
        opener.open(place).close()
        with opener.open(f"{open_to_all}api/runs") as answer:
            assert len(json.load(answer)["runs"]) == 2


def test_a_long_table_is_counted_in_part_and_the_page_says_so(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(details, "MOST_CLIENT_ROWS", 3)
    for count, said in ((3, []), (4, ["clients.csv is long; its last 3 rows are counted"])):
        rows = [f"{at},0,,ok,,5,1.0,cpu" for at in range(1, count + 1)]
        text = "\n".join([",".join(CLIENT_COLUMNS), *rows, ""])
        (runs / "one" / CLIENTS).write_text(text)
        found = browser(runs).get("/api/runs/one").json()
        assert found["problems"] == said
        assert found["clients"][0][2] == 3  # rows of client 0
