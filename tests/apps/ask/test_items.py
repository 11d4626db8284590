import numpy as np
import pytest

from rankwise.apps.ask.items import read_item_list
from rankwise.core.errors import DataFileError
from systems import needs_unix

PNG = bytes.fromhex("89504e470d0a1a0a")


def test_a_table_gives_names_texts_and_features(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text(
        "Title,Text,price,kind,note\n"
        "a,first,1,red,u\nb,second,,blue,v\nc,third,3,red,w\nd,fourth,4,blue,x\n"
    )
    found = read_item_list(path)
    assert [item.name for item in found.items] == ["a", "b", "c", "d"]
    assert found.items[1].text == "second"
    assert found.feature_names == ("price", "kind=blue", "kind=red")
    assert found.ignored_columns == ("note",)
    np.testing.assert_allclose(found.features.mean(axis=0)[0], 0.0, atol=1e-12)
    assert found.features[1, 0] == 0.0  # a blank counts as the mean
    assert found.features[:, 1].tolist() == [0.0, 1.0, 0.0, 1.0]


def test_a_folder_of_images_gives_an_item_each(tmp_path):
    for name in ["b.png", "a.jpg", "notes.txt", ".hidden.png"]:
        (tmp_path / name).write_bytes(PNG)
    found = read_item_list(tmp_path)
    assert [item.name for item in found.items] == ["a", "b"]
    assert all(item.image is not None for item in found.items)


def test_a_folder_of_texts_gives_an_item_each(tmp_path):
    for name in ["x.txt", "y.md"]:
        (tmp_path / name).write_text(f"text of {name}")
    assert [item.text for item in read_item_list(tmp_path).items] == [
        "text of x.txt",
        "text of y.md",
    ]


def test_images_of_a_table_lie_below_its_folder(tmp_path):
    folder = tmp_path / "inner"
    folder.mkdir()
    (tmp_path / "secret.png").write_bytes(PNG)
    (folder / "ok.png").write_bytes(PNG)
    (folder / "items.csv").write_text("name,image\na,ok.png\nb,../secret.png\n")
    with pytest.raises(DataFileError, match="below the folder"):
        read_item_list(folder / "items.csv")


@needs_unix
def test_links_of_images_do_not_lead_out_of_the_folder(tmp_path):
    folder = tmp_path / "inner"
    folder.mkdir()
    (tmp_path / "secret.png").write_bytes(PNG)
    (folder / "ok.png").write_bytes(PNG)
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    (folder / "items.csv").write_text("name,image\na,ok.png\nb,link.png\n")
    with pytest.raises(DataFileError, match="below the folder"):
        read_item_list(folder / "items.csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [("name\na\n", "at least two items"), ("name\na\na\n", "'a' occurs twice")],
)
def test_what_cannot_be_ranked_is_refused(tmp_path, text, message):
    path = tmp_path / "items.csv"
    path.write_text(text)
    with pytest.raises(DataFileError, match=message):
        read_item_list(path)


def test_items_that_are_not_there_are_refused(tmp_path):
    with pytest.raises(DataFileError, match="there is no such file or folder"):
        read_item_list(tmp_path / "photos")
