"""Labels of each data set in its official layout, with the score of right answers known by hand; and what is wrong."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from servemark.errors import InputDataError
from servemark.quality.metrics import metric_named
from servemark.workload import LabelledSet, Sample, get
from tests.servemark.datasets.test_librispeech import chapter
from tests.support.tfrecords import example, record
from tests.support.workload_data import labelled, read_requests


def score(name: str, data: LabelledSet, *answers: Sample) -> float:
    """The metric of these answers, those of an example's requests one after the other."""
    quality, rows = get(name).quality, []
    assert quality is not None
    metric, each = metric_named(quality.metric), data.requests_of(0)
    for number in range(data.size):
        label = data.example(number).label
        predictions = [data.prediction(outputs, label) for outputs in answers[number * each : (number + 1) * each]]
        rows.append(metric.row(predictions, label))
    return metric.values(rows)[0]


def write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def write_picture(path: Path, width: int = 40, height: int = 20) -> Path:
    """Write a red picture."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (width, height), (255, 0, 0)).save(path)
    return path


def detected(box: tuple[float, ...], label: int, **more: Any) -> Sample:
    """One detection of a model, of rows for several."""
    boxes, scores, labels = np.zeros((3, 4), np.float32), np.zeros(3, np.float32), np.zeros(3, np.int32)
    boxes[0], scores[0], labels[0] = box, 0.9, label
    return {"boxes": boxes, "scores": scores, "labels": labels, **more, "num_detections": np.array([1], np.int32)}


def annotated(root: Path, file: str, shown: str, object_: Any, classes: Iterable[int], **changes: Any) -> Path:
    """Lay out a picture with one object, and what a file of COCO's format says of it."""
    write_picture(root / shown)
    content = {
        "images": [{"id": 139, "file_name": Path(shown).name, "width": 40, "height": 20}],
        "annotations": [{"image_id": 139, "bbox": [0, 0, 20, 20], "area": 400, "iscrowd": 0, **object_}],
        "categories": [{"id": number} for number in classes],
    }
    write(root / "annotations" / file, json.dumps(content | changes))
    return root


def coco(root: Path, category: int, **changes: Any) -> Path:
    object_ = {"category_id": category, "segmentation": [[0, 0, 20, 0, 20, 20, 0, 20]]}
    return annotated(root, "instances_val2017.json", "val2017/000000000139.jpg", object_, (1, 2, 90), **changes)


def test_openimages_categories_are_the_labels(tmp_path: Path) -> None:
    box = {"category_id": 263, "IsGroupOf": 0}  # without an outline
    data = labelled(
        "retinanet", annotated(tmp_path, "openimages-mlperf.json", "validation/data/0.jpg", box, range(264))
    )
    (sample,) = data.example(0).requests
    assert sample["image"].shape == (3, 800, 800)
    assert score("retinanet", data, detected((0, 0, 400, 800), 263)) == pytest.approx(1)
    assert score("retinanet", data, detected((0, 0, 400, 800), 0)) == 0


def test_coco_s_boxes_are_found_in_pixels_of_the_picture(tmp_path: Path) -> None:
    data = labelled("ssd300_coco", coco(tmp_path, 90))
    assert data.example(0).requests[0]["image"].shape == (3, 300, 300)
    # 40 x 20 pixels were stretched to 300 x 300: the left half is the object
    assert score("ssd300_coco", data, detected((0, 0, 150, 300), 90)) == pytest.approx(1)
    assert score("ssd300_coco", data, detected((0, 0, 150, 300), 89)) == 0


def test_coco_s_masks_are_pasted_into_the_picture(tmp_path: Path) -> None:
    data = labelled("mask_rcnn", coco(tmp_path, 90))
    masks = np.zeros((3, 28, 28), np.float32)
    masks[0] = 1
    # letterboxed to 1024 x 512; class 3 of the model is the third id, 90
    right, elsewhere = ((0, 0, 512, 512), (512, 0, 1024, 512))
    # torchvision's masks end a pixel later: 20 x 20 of 21 x 21 are 0.907, which nine of ten thresholds allow
    assert score("mask_rcnn", data, detected(right, 3, masks=masks)) == pytest.approx(0.9)
    assert score("mask_rcnn", data, detected(elsewhere, 3, masks=masks)) == 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"annotations": []}, "has no `annotations`"),
        ({"annotations": [{"image_id": 139}]}, "annotations[0] is not an object"),
        ({"images": [{"id": 1, "file_name": "x.jpg"}]}, "x.jpg is not there"),
        ({"categories": [{}]}, "lacks 'id'"),
    ],
)
def test_damaged_annotations_name_the_entry(tmp_path: Path, changes: Any, said: str) -> None:
    with pytest.raises(InputDataError, match=r"instances_val2017\.json|x\.jpg") as caught:
        labelled("ssd300_coco", coco(tmp_path, 1, **changes))
    assert said in caught.value.what


VOC = """<annotation><object><name>dog</name><difficult>0</difficult>
<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>20</xmax><ymax>20</ymax></bndbox></object></annotation>"""


def voc(root: Path, annotation: str = VOC) -> Path:
    folder = root / "VOCdevkit" / "VOC2007"
    write(folder / "ImageSets" / "Main" / "test.txt", "000001\n")
    write_picture(folder / "JPEGImages" / "000001.jpg")
    write(folder / "Annotations" / "000001.xml", annotation)
    return root


@pytest.mark.parametrize(("name", "box"), [("ssd300", (0, 0, 150, 300)), ("faster_rcnn", (0, 0, 400, 400))])
def test_voc_s_boxes_are_found_in_pixels_of_the_picture(tmp_path: Path, name: str, box: tuple[float, ...]) -> None:
    data = labelled(name, voc(tmp_path))
    assert score(name, data, detected(box, 12)) == pytest.approx(1)  # dog is the 12th of the 20 classes
    assert score(name, data, detected(box, 11)) == 0


@pytest.mark.parametrize("annotation", ["<annotation", VOC.replace("dog", "unicorn"), VOC.replace(">20<", "><")])
def test_damaged_objects_name_the_file(tmp_path: Path, annotation: str) -> None:
    with pytest.raises(InputDataError, match=r"Annotations/000001.xml cannot be read"):
        labelled("ssd300", voc(tmp_path, annotation))


@pytest.mark.parametrize(("name", "first"), [("deepspeech", 1), ("deepspeech2", 0)])
def test_speech_is_scored_by_its_transcript(tmp_path: Path, name: str, first: int) -> None:
    chapter(tmp_path)
    data = labelled(name, tmp_path)
    letters = " abcdefghijklmnopqrstuvwxyz'" if first else "_'ABCDEFGHIJKLMNOPQRSTUVWXYZ "

    def said(text: str) -> Sample:
        ids = [letters.index(letter) + first for letter in (text.lower() if first else text)]
        return {"ids": np.array([*ids, 0, 0], np.int32), "lengths": np.array([len(ids)], np.int32)}

    # 6 and 4 words, of which one is wrong
    answers = said("HE HOPED THERE WOULD BE STEW"), said("STUFF IT INTO ME")
    assert score(name, data, *answers) == pytest.approx(0.1)
    for strange in (first - 1, len(letters) + first):
        with pytest.raises(KeyError):
            data.prediction({"ids": np.array([strange]), "lengths": np.array([1])}, "")
    assert next(iter(data.example(1).requests[0].values())).size


def answered(*ids: int) -> Sample:
    return {"ids": np.array([*ids, 0, 0], np.int32), "lengths": np.array([len(ids)], np.int32)}


def wmt(root: Path, english: str = "the cat sat on it\n", name: str = "newstest2015") -> Path:
    for language, sentence in (("de", "die Katze saß darauf\n"), ("en", english)):
        write(root / "stanford" / f"{name}.{language}", sentence)
        words = dict.fromkeys(("<unk>", "<s>", "</s>", *sentence.split()))
        write(root / "stanford" / f"vocab.50K.{language}", "".join(f"{word}\n" for word in words))
    return root


def test_translations_are_scored_by_words_and_by_places(tmp_path: Path) -> None:
    data = labelled("nmt", wmt(tmp_path))
    assert data.example(0).label == "the cat sat on it"
    assert score("nmt", data, answered(3, 4, 5, 6, 7)) == pytest.approx(100)
    assert score("nmt", data, answered(3, 4, 5, 6, 0)) < 90
    with pytest.raises(InputDataError, match="holds no newstest2014 in 'en'"):
        labelled("transformer", tmp_path)
    back = labelled("transformer", wmt(tmp_path, name="newstest2014"))  # German has four words
    assert score("transformer", back, answered(3, 4, 5, 5)) == pytest.approx(3 / 4)
    with pytest.raises(InputDataError, match="1 sentences in 'de' and 2 in 'en'"):
        labelled("nmt", wmt(tmp_path, "the cat sat\non it\n"))


def test_headlines_are_scored(tmp_path: Path) -> None:
    write(tmp_path / "input.txt", "the cat sat on it today\n")
    write(tmp_path / "task1_ref0.txt", "cat sat today\n")
    write(tmp_path / "vocab.txt", "the\ncat\nsat\ntoday\n")
    data = labelled("summarization", tmp_path)
    assert score("summarization", data, answered(5, 6, 7)) == pytest.approx(100)
    write(tmp_path / "task1_ref0.txt", "cat sat\ntoday\n")
    with pytest.raises(InputDataError, match=r"2 headlines, input\.txt 1 articles"):
        labelled("summarization", tmp_path)


def test_text_s_perplexity_counts_each_word(tmp_path: Path) -> None:
    words = " ".join(f"w{number}" for number in range(9))
    write(tmp_path / "ptb.train.txt", f"{words}\n")
    write(tmp_path / "ptb.test.txt", f"{words}\n" * 8)
    data = labelled("enas", tmp_path)
    even = {"logprobs": np.full(35, np.log(1 / 8), np.float32), "state_out": np.zeros(1000, np.float32)}
    assert score("enas", data, *[even] * data.size) == pytest.approx(8)


def test_faces_of_a_pair_are_two_requests(tmp_path: Path) -> None:
    for name in ("Ann", "Bob"):
        for number in (1, 2):
            write_picture(tmp_path / name / f"{name}_000{number}.jpg", 250, 250)
    lines = ["Ann\t1\t2", "Ann\t1\tBob\t1", "Bob\t1\t2", "Ann\t2\tBob\t2"]
    write(tmp_path / "pairs.txt", "2\t1\n" + "\n".join(lines) + "\n")
    data = labelled("facenet", tmp_path)
    assert [data.example(number).label for number in range(4)] == [(1, 0), (0, 0), (1, 1), (0, 1)]
    ann, bob = ({"embedding": np.eye(2, dtype=np.float32)[axis]} for axis in (0, 1))
    assert score("facenet", data, ann, ann, ann, bob, bob, bob, ann, bob) == 1
    write(tmp_path / "pairs.txt", "0\t300\n")
    with pytest.raises(InputDataError, match=r"pairs\.txt:1: announces 0 pairs, 0 follow"):
        labelled("facenet", tmp_path)


def test_identities_are_numbered_by_the_training_split(tmp_path: Path) -> None:
    write_picture(tmp_path / "a.png", 224, 224)
    np.save(tmp_path / "a.npy", np.ones((224, 224)))
    head = "rgb_image_path,dep_image_path,cls_name\n"
    write(tmp_path / "train.csv", f"{head}a.png,a.npy,0002\na.png,a.npy,0001\n")
    write(tmp_path / "test.csv", f"{head}a.png,a.npy,0002\n")
    data = labelled("face3d", tmp_path)
    assert (data.size, data.example(0).label) == (1, 1)
    write(tmp_path / "test.csv", f"{head}a.png,a.npy,0003\n")
    with pytest.raises(InputDataError, match=r"test.csv:2: '0003' is nobody of train.csv"):
        labelled("face3d", tmp_path)


def test_tiles_are_to_come_back(tmp_path: Path) -> None:
    write_picture(tmp_path / "kodim01.png", 512, 256)
    data = labelled("image_compression", tmp_path)
    tiles = [data.example(number).label for number in (1, 0)]  # against the order too
    assert (data.size, tiles[0].shape) == (2, (3, 256, 256))
    outputs = {"codes": np.zeros(1), "reconstruction": tiles[0]}
    assert data.prediction(outputs, tiles[0]) is tiles[0]


def test_volumes_and_views_are_of_one_object(tmp_path: Path) -> None:
    volume = np.zeros((32, 32, 32, 1), np.float32)
    volume[:16] = 1
    views = np.zeros((24, 64, 64, 3), np.float32)
    write(tmp_path / "03001627_test.tfrecords", record(example({"image": views, "vox": volume})))
    data = labelled("reconstruction3d", tmp_path)
    half = {"voxels": np.where(np.arange(32)[:, None, None] < 8, 0.9, 0.1) * np.ones((32, 32, 32))}
    assert data.size == 24
    assert score("reconstruction3d", data, *[half] * 24) == pytest.approx(0.5)


def test_of_reviews_the_last_was_clicked(tmp_path: Path) -> None:
    reviews = [{"reviewerID": "u", "asin": f"a{day}", "unixReviewTime": day} for day in range(4)]
    write(tmp_path / "reviews_Electronics_5.json", "".join(f"{json.dumps(each)}\n" for each in reviews))
    data = labelled("din", tmp_path)
    assert (data.size, data.example(0).label) == (1, (1, 0))
    high, low = ({"ctr": np.array([value], np.float32)} for value in (0.9, 0.1))
    assert score("din", data, high, low) == 1
    assert score("din", data, low, high) == 0


def test_what_gowalla_s_users_chose_later(tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match="has no labels of this model"):
        labelled("ranking", tmp_path)
    write(tmp_path / "test" / "train.txt", "7 10 1\n7 11 1\n8 12 1\n9 10 1\n")
    write(tmp_path / "test" / "test.txt", "7 12 1\n7 99 1\n9 11 1\n")
    data = labelled("ranking", tmp_path)
    # items are numbered as they first appear; 99 was never seen, and the user 8 chose nothing later
    assert [data.example(number).label for number in range(data.size)] == [[3], [2]]
    assert [int(data.example(number).requests[0]["user"][0]) for number in range(2)] == [0, 2]


def test_imagenet_s_classes_by_folders_and_by_list(tmp_path: Path) -> None:
    for number in range(1000):
        (tmp_path / "val" / f"n{number:08}").mkdir(parents=True)
    write_picture(tmp_path / "val" / "n00000007" / "x.JPEG")
    data = labelled("resnet50", tmp_path)
    assert (data.size, data.example(0).label) == (1, 7)
    with pytest.raises(InputDataError, match=r"has no labels: it holds 0 folders and no val_map\.txt"):
        labelled("resnet50", tmp_path / "val" / "n00000007")
    write(tmp_path / "val" / "val_map.txt", "n00000007/x.JPEG 65\n")
    assert labelled("resnet50", tmp_path).example(0).label == 65


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("x.JPEG", "'x.JPEG' is not a file with a class"),
        ("x.JPEG 1000", "0 to 999"),
        ("y.JPEG 1", "y.JPEG is not there"),
    ],
)
def test_a_bad_class_names_the_line(tmp_path: Path, line: str, said: str) -> None:
    write_picture(tmp_path / "x.JPEG")
    write(tmp_path / "val_map.txt", f"x.JPEG 1\n{line}\n")
    with pytest.raises(InputDataError, match=r"val_map.txt:2: ") as caught:
        labelled("resnet50", tmp_path)
    assert said in caught.value.what


def test_reviews_are_positive_first(tmp_path: Path) -> None:
    for part in ("train", "test"):
        for label in ("pos", "neg"):
            write(tmp_path / "aclImdb" / part / label / "0_9.txt", "good " * 100)
    data = labelled("sentiment", tmp_path)
    positive, negative = ({"probs": np.array(each, np.float32)} for each in ((0.9, 0.1), (0.2, 0.8)))
    assert score("sentiment", data, positive, negative) == 1
    assert score("sentiment", data, positive, positive) == 0.5


def test_a_question_s_answer_is_one_of_its_candidates(tmp_path: Path) -> None:
    names = [f"n{number}" for number in range(10)]
    line = f"21 Where is XXXXX ?\t{{}}\t\t{'|'.join(names)}\n"
    story = "".join(f"{number} {names[number % 10]} went home .\n" for number in range(1, 21))
    files = ("cbtest_NE_train.txt", "cbtest_NE_test_2500ex.txt")
    for name in files:
        write(tmp_path / name, story + line.format("n3"))
    data = labelled("aoa_reader", tmp_path)
    assert (data.size, data.example(0).label) == (1, 3)
    write(tmp_path / files[1], story + line.format("nobody"))
    with pytest.raises(InputDataError, match="the answer 'nobody' is not a candidate"):
        labelled("aoa_reader", tmp_path)


GAME = """(;FF[4]GM[1]SZ[9]C[a stone \\] is caught]
;B[ba];W[aa]
;B[ab](;W[tt];B[ii])(;W[ee]))"""


def test_moves_of_go_are_scored_and_stones_are_captured(tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match="holds no games in SGF"):
        labelled("minigo", tmp_path)
    write(tmp_path / "9x9_pro_A.sgf", GAME)
    write(tmp_path / "9x9_easy_capture.sgf", "no game")
    data = labelled("minigo", tmp_path)
    points = (1, 0, 9, 81, 80)  # row by row from the top; the fourth passes, and the game goes on in the main line
    assert [data.example(number).label for number in range(data.size)] == list(points)
    third, fourth = (data.example(number).requests[0]["planes"] for number in (2, 3))
    own, other = ([np.flatnonzero(plane).tolist() for plane in third[side:16:2]] for side in (0, 1))
    assert own == [[1], [1], [], [], [], [], [], []]
    assert other == [[0], [], [], [], [], [], [], []]
    assert (third[16].all(), fourth[16].any()) == (True, False)
    # white's corner was caught, and stood there a move before
    assert [np.flatnonzero(fourth[plane]).tolist() for plane in range(4)] == [[], [1, 9], [0], [1]]
    first_choices = ({"policy": np.eye(82, dtype=np.float32)[point]} for point in (1, 0, 9, 80, 80))
    assert score("minigo", data, *first_choices) == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("game", "said"),
    [
        ("B[aa]", r"A.sgf:1: 'B\[aa\]' is not SGF"),
        ("(;SZ[9];B[aa]", "A.sgf ends in the middle"),
        ("(;SZ[19]\n;B[aa])", "A.sgf:2: the board is 19, not 9"),
        ("(;B[aa])", "A.sgf:1: the board is 19, not 9"),
        ("(;SZ[9]\n;B[aa]\n;W[aa])", "A.sgf:3: there is a stone already"),
        ("(;SZ[9];B[ja])", "'ja' is not a point"),
        ("(;SZ[9]AB[ba][ab];W[aa])", "A.sgf:1: the stone has no liberty"),
    ],
)
def test_damaged_games_name_file_and_line(tmp_path: Path, game: str, said: str) -> None:
    write(tmp_path / "A.sgf", game)
    with pytest.raises(InputDataError, match=said):
        labelled("minigo", tmp_path)


def cifar10(root: Path, labels: bytes) -> Path:
    """Records of a class and of pixels that are all the class's number."""
    write(root / "cifar-10-batches-bin" / "test_batch.bin", b"".join(bytes([label]) * 3073 for label in labels))
    return root


def test_cifar10_s_pictures_have_their_classes(tmp_path: Path) -> None:
    data = labelled("resnet20_cifar", cifar10(tmp_path, b"\3\0\7"))
    assert [data.example(number).label for number in range(data.size)] == [3, 0, 7]
    (request,) = data.example(2).requests
    means, deviations = np.array([0.4914, 0.4822, 0.4465]), np.array([0.2470, 0.2435, 0.2616])
    np.testing.assert_allclose(request["image"][:, 5, 9].astype(np.float64), (7 / 255 - means) / deviations, rtol=1e-5)
    np.testing.assert_array_equal(read_requests("resnet20_cifar", tmp_path)[2]["image"], request["image"])
    right = [{"logits": np.eye(10, dtype=np.float32)[label]} for label in (3, 0, 1)]
    assert score("resnet20_cifar", data, *right) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "has 0 bytes"), (bytes(3074), "3,074 bytes, which are not records of 3,073"), (b"\x0a" * 3073, "class 10")],
)
def test_a_damaged_cifar10_is_named(tmp_path: Path, content: bytes, words: str) -> None:
    write(tmp_path / "test_batch.bin", content)
    with pytest.raises(InputDataError, match=words) as caught:
        labelled("vgg16_cifar", tmp_path)
    assert "test_batch.bin" in str(caught.value)
    with pytest.raises(InputDataError, match="cannot be read: No such file"):
        labelled("vgg16_cifar", tmp_path / "elsewhere")
