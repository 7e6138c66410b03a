"""`univarfl data`: its counts, text, table and pictures."""

import csv
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from server_app.config.composition import compose_experiment
from task.data.federated import federate
from task.data.skew import counts, skew
from task.errors import ConfigError
from tests.task.data import making
from univarfl.report.split.pictures import MAX_DRAWN, client_labels, draw_domains, of_some_clients
from univarfl.report.split.report import report_split, title_of


class TestSkew:
    def test_by_hand(self) -> None:
        """Half of all images have class 0; the clients have all, none, and three quarters."""
        found = skew(np.array([[10, 0], [0, 14], [6, 2]]))
        assert found.distance.tolist() == [0.5, 0.5, 0.25]
        quarter = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
        assert found.effective.tolist() == pytest.approx([1, 1, np.exp(quarter)])

    def test_equal_distributions_have_no_skew(self) -> None:
        found = skew(np.full((5, 10), 7))
        assert found.distance.tolist() == [0] * 5
        assert found.effective.tolist() == pytest.approx([10] * 5)

    def test_each_image_is_counted_once(self) -> None:
        data = federate(compose_experiment(["alpha=0.1"]).local())
        by_class, by_domain = counts(data)
        assert (by_class.shape, by_domain.shape) == ((10, 10), (10, 1))
        assert by_class.sum() == by_domain.sum() == len(data.dataset.train)
        held = np.concatenate(data.clients[3])
        expected = np.bincount(data.dataset.labels[held], minlength=10)
        assert by_class[3].tolist() == expected.tolist()


def report(directory: Path, *words: str) -> None:
    report_split(compose_experiment(list(words)), directory)


def table(directory: Path) -> list[dict[str, str]]:
    with (directory / "split.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_of_very_many_clients_the_table_has_all_and_the_picture_a_sample(tmp_path: Path) -> None:
    words = ["data=generated", "data.image_size=8", "data.num_images=10010", "num_clients=1001"]
    words += ["partition=dirichlet", "data.validation_share=0.5"]
    report(tmp_path, *words)
    data = federate(compose_experiment(words).local())
    rows = table(tmp_path)
    for client in (0, 500, 1000):
        for split, held in data.clients[client]._asdict().items():
            found = {row["class"]: int(row["images"]) for row in rows
                     if (row["client"], row["split"]) == (str(client), split)}  # fmt: skip
            labels, images = np.unique(data.dataset.labels[held], return_counts=True)
            assert found == dict(zip(map(str, labels), images, strict=True))
    whole = counts(data)
    by_class, by_domain = of_some_clients(whole, 0)
    assert len(by_class) == len(by_domain) == MAX_DRAWN
    assert {tuple(row) for row in by_class.tolist()} <= {tuple(row) for row in whole[0].tolist()}


@pytest.mark.usefixtures("all_digits")
def test_text_table_and_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report(tmp_path / "new" / "place", "alpha=0.01")
    printed = capsys.readouterr().out
    assert "digits: 1437 training images, 360 test images, 32x32, 10 classes" in printed
    assert "partition=dirichlet: 10 clients with " in printed
    assert "class skew 0.85: the share of images whose class would have to change" in printed
    assert "effective number of classes per client: 1.4 of 10" in printed
    assert "domain skew" not in printed
    rows = table(tmp_path / "new" / "place")
    images = {
        split: sum(int(row["images"]) for row in rows if row["split"] == split)
        for split in ("train", "validation", "test")
    }
    assert images["train"] + images["validation"] == 1437
    assert images["test"] == 360
    for name in ("split.png", "images.png"):
        with Image.open(tmp_path / "new" / "place" / name) as picture:
            assert min(picture.size) > 300
            assert np.asarray(picture.convert("L")).std() > 20


def test_domains_and_their_skew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = [f"{site}/{name}" for site in ("north", "south") for name in ("cat", "dog")]
    making.tree(tmp_path / "images", places, 20)
    words = ["data=folder", f"data.root={tmp_path / 'images'}", "partition=domains"]
    report(tmp_path, *words, "num_clients=4")
    printed = capsys.readouterr().out
    assert "2 domains" in printed
    assert "domain skew 0.50" in printed
    assert {(row["client"], row["domain"]) for row in table(tmp_path) if row["client"]} == {
        ("0", "north"), ("1", "north"), ("2", "south"), ("3", "south"),
    }  # fmt: skip


def test_clients_of_several_domains_are_pointed_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    making.tree(
        tmp_path / "images", [f"{site}/{label}" for site in "abc" for label in ("cat", "dog")], 20
    )
    words = ["data=folder", f"data.root={tmp_path / 'images'}", "num_clients=2"]
    for partition, mixed in (("iid", True), ("natural", False)):
        report(tmp_path, *words, f"partition={partition}")
        assert ("clients hold images of several domains" in capsys.readouterr().out) == mixed


def test_more_domains_than_colours_are_drawn_as_one_bar_without_a_legend() -> None:
    for domains, colours, legends in ((2, 2, 1), (7, 7, 1), (8, 1, 0), (40, 1, 0)):
        figure = Figure(layout="constrained")
        axes = figure.subplots()
        names = tuple(f"_writer {number}" for number in range(domains))
        draw_domains(axes, names, np.ones((3, domains), dtype=np.int64))
        assert len(axes.patches) == 3 * colours
        assert len({patch.get_facecolor() for patch in axes.patches}) == colours
        assert axes.dataLim.x1 == domains
        assert len(figure.legends) == legends
        for legend in figure.legends:
            assert tuple(text.get_text() for text in legend.get_texts()) == names


HOSPITAL = "hospital_number_{:02}_department_of_radiology"


@pytest.mark.filterwarnings("error:constrained_layout")
@pytest.mark.parametrize(
    ("domains", "classes", "name"),
    [
        ([HOSPITAL.format(number) for number in range(12)], ["a", "b", "c", "d"], "images"),
        ([HOSPITAL.format(number) for number in range(7)], ["$x_1$ " * 9, "b" * 90], "images"),
        (["$a_1$", "_b 50%", "c" * 100, "d"], ["_x", "$y$", "%z"], "words " * 30 + "end"),
    ],
)
def test_long_names_do_not_cut_the_pictures(
    tmp_path: Path, domains: list[str], classes: list[str], name: str
) -> None:
    places = [f"{domain}/{label}" for domain in domains for label in classes]
    making.tree(tmp_path / name, places, 8)
    words = ["data=folder", f"data.root={tmp_path / name}", "partition=domains"]
    report(tmp_path / "split", *words, f"num_clients={len(domains)}", "data.image_size=8")
    for picture in ("split.png", "images.png"):
        with Image.open(tmp_path / "split" / picture) as image:
            pixels = np.asarray(image.convert("L"))
        edges = (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1])
        assert all((edge == 255).all() for edge in edges), picture


def test_clients_of_domains_with_a_common_start_have_different_labels(tmp_path: Path) -> None:
    places = [f"ward_of_a_large_hospital_{domain}/{label}" for domain in "xy" for label in "ab"]
    making.tree(tmp_path / "images", places, 8)
    words = ["data=folder", f"data.root={tmp_path / 'images'}", "partition=domains"]
    data = federate(compose_experiment([*words, "num_clients=2"]).local())
    assert client_labels(data, [0, 1]) == ["0 ward_o…ge_hospital_x", "1 ward_o…ge_hospital_y"]


def test_class_names_are_not_read_as_markup(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    making.tree(tmp_path / "images", ["[bold]", "$a_$", ":cat: [x]"], 20)
    words = ["data=folder", f"data.root={tmp_path / 'images'}", "num_clients=2", "partition=iid"]
    report(tmp_path, *words)
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("[bold]", "$a_$", ":cat: [x]"))
    assert {row["class"] for row in table(tmp_path)} == {"[bold]", "$a_$", ":cat: [x]"}


@pytest.mark.usefixtures("all_digits")
def test_the_text_shows_the_largest_of_many_clients_and_the_table_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report(tmp_path, "num_clients=100", "alpha=0.1")
    printed = capsys.readouterr().out
    assert "(the 30 largest of 100 clients; split.csv has all of them)" in printed
    assert len({row["client"] for row in table(tmp_path)}) == 101


def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"--to=.*: cannot be written: file exists"):
        report(tmp_path / "file")


def test_a_directory_inside_the_images_is_refused(tmp_path: Path) -> None:
    making.tree(tmp_path, ["cat", "dog"], 20)
    with pytest.raises(ConfigError, match=r"is inside data\.root"):
        report(tmp_path / "split", "data=folder", f"data.root={tmp_path}")


def test_skipped_images_are_listed(tmp_path: Path) -> None:
    making.tree(tmp_path / "images", ["cat", "dog"], 20)
    (tmp_path / "images" / "cat" / "text.png").write_text("no image")
    words = ["data=folder", f"data.root={tmp_path / 'images'}", "num_clients=2", "partition=iid"]
    report(tmp_path / "split", *words)
    listed = (tmp_path / "split" / "skipped.csv").read_text().splitlines()
    assert listed == ["image,reason", "cat/text.png,not an image"]


def test_sites_have_no_split(tmp_path: Path) -> None:
    words = ["partition=sites", "partition.names=[a]", "data=folder", "data.classes=[x,y]"]
    with pytest.raises(ConfigError, match="a site can look at its images with"):
        report(tmp_path, *words)


@pytest.mark.parametrize(
    ("word", "title"),
    [
        ("alpha=0.05", "digits, dirichlet alpha 0.05"),
        ("partition.alpha=0.01", "digits, dirichlet alpha 0.01"),
        ("partition=iid", "digits, iid"),
    ],
)
def test_the_title_names_the_alpha_of_the_split(word: str, title: str) -> None:
    assert title_of(compose_experiment([word])) == title
