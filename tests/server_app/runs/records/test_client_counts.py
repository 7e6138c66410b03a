"""The clients' numbers of images in a record: each, or a summary of many."""

from server_app.runs.records.client_counts import MOST_LISTED, recorded_counts
from univarfl.records.labels import client_count


def test_as_many_as_allowed_are_listed_and_one_more_is_summarised() -> None:
    assert MOST_LISTED == 1000
    listed, summary = (recorded_counts(range(1, count + 1)) for count in (1000, 1001))
    assert listed == list(range(1, 1001))
    assert isinstance(summary, dict)
    assert (summary["count"], summary["min"], summary["max"]) == (1001, 1, 1001)
    assert [client_count(each) for each in (listed, summary)] == [1000, 1001]
