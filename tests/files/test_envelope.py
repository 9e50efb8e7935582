"""Format, version, digest; a write that is interrupted; places that cannot be read or written."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from rcb_bayes.errors import RcbError
from rcb_bayes.files import Format, as_text, content_of, read_text, write_atomically
from rcb_bayes.files import envelope as envelope_module

FORM = Format(name="note", version=3, remedy="Write it again.")
CONTENT: dict[str, Any] = {"a": 0.1, "b": [1, "x", None], "c": {"d": True}}


def test_what_is_written_is_read():
    assert content_of(FORM, as_text(FORM, CONTENT), where="here") == CONTENT


def test_the_layout_does_not_matter():
    document = json.loads(as_text(FORM, CONTENT))
    assert content_of(FORM, json.dumps(document, sort_keys=True), where="here") == CONTENT


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("0.1", "0.2"), "digest does not match its content: a digit was changed"),
        (lambda text: text.replace("true", "false"), "a digit was changed"),
        (lambda text: text.replace("0.1", "NaN"), "NaN is no number of JSON"),
        (lambda text: text.replace("0.1", "1e999"), "too large a number"),
        (lambda text: text.replace("0.1", "9" * 10_000), "not JSON"),
        (lambda text: text.replace('"b"', '"a"'), "a name stands there twice"),
        (lambda text: text.replace('"x"', r'"\ud800"'), "text that is no text"),
        (lambda text: text[: len(text) // 2], "not JSON, or cut off"),
        (lambda text: "", "not JSON, or cut off"),
        (lambda text: "[" * 100_000, "nested too deeply|not JSON"),
        (lambda text: "3", "no format, expected 'rcb_bayes note'"),
        (lambda text: text.replace("rcb_bayes note", "rcb_bayes plan"), "its format is 'rcb_bayes plan'"),
        (lambda text: text.replace('version": 3', 'version": 4'), "version 4 of the format, this version .* reads 3"),
        (lambda text: '{"format": 1}', "its format is '1', expected"),
        (lambda text: text.replace('"digest"', '"digets"'), "no digest"),
    ],
)
def test_what_is_not_right_is_refused_in_one_line(change: Any, message: str):
    with pytest.raises(RcbError, match=message) as caught:
        content_of(FORM, change(as_text(FORM, CONTENT)), where="here")
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("Cannot read a note from here: ")
    assert str(caught.value).endswith(". Write it again.")


def test_a_device_is_written_to_as_it_is():
    write_atomically("/dev/null", b"gone")
    assert not Path("/dev/null").is_file()


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "note.json"
    write_atomically(path, b"old")

    def stopped(file: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(envelope_module.os, "fsync", stopped)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["note.json"]


def test_a_link_stays_one_and_rights_are_kept(tmp_path: Path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("place", ["none/note.json", "x" * 3000, "a\0b"])
def test_places_that_cannot_be_written_to(tmp_path: Path, place: str):
    with pytest.raises(RcbError, match=r"Cannot write .*Choose another place"):
        write_atomically(tmp_path / place, b"new")


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("none.json", "No such file"),
        (".", "Is a directory"),
        ("x" * 3000, "too long"),
        ("a\0b", "null"),
        ("image", "it is no text"),
    ],
)
def test_places_that_cannot_be_read(tmp_path: Path, place: str, message: str):
    (tmp_path / "image").write_bytes(b"\xff\xd8")
    with pytest.raises(RcbError, match=message):
        read_text(FORM, tmp_path / place)


def test_what_is_no_regular_file_or_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(RcbError, match="no regular file"):
        read_text(FORM, "/dev/zero")
    (tmp_path / "large").write_bytes(b"x" * 11)
    monkeypatch.setattr(envelope_module, "MOST_BYTES", 10)
    with pytest.raises(RcbError, match="11 bytes, and 10 are the most"):
        read_text(FORM, tmp_path / "large")


def test_values_are_counted_before_they_are_read(monkeypatch: pytest.MonkeyPatch):
    """In memory a value takes some thirty times what it takes in a file."""
    few = Format(name="note", version=3, remedy="Write it again.", most_values=20)
    assert content_of(few, as_text(few, CONTENT), where="here") == CONTENT
    with pytest.raises(RcbError, match=r"Cannot write a file of 42 values; 20 are the most we read\."):
        as_text(few, {"a": [0] * 33})
    text = as_text(FORM, {"a": [[]] * 40})
    monkeypatch.setattr(envelope_module.json, "loads", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(RcbError, match=r"it has [0-9]+ values, and 20 are the most we read"):
        content_of(few, text, where="here")


@pytest.mark.parametrize("word", ["\x1b[31mred", "\\\x1b[2J", "a\x9b2J", "\u202egnp", "\x07"])
def test_controls_of_a_terminal_are_refused(word: str):
    for text in (as_text(FORM, {"a": word}), json.dumps(json.loads(as_text(FORM, {"a": [word]})), ensure_ascii=False)):
        with pytest.raises(RcbError, match="controls of a terminal"):
            content_of(FORM, text, where="here")


@pytest.mark.parametrize("word", ["a\nb\tc", "\\x1b", "\\u001b", "é ± 😀", "\u200c"])
def test_other_words_are_not(word: str):
    assert content_of(FORM, as_text(FORM, {"a": word}), where="here") == {"a": word}


def test_half_a_character_is_refused_on_writing():
    with pytest.raises(RcbError, match=r"'\\ud800', half of a character"):
        as_text(FORM, {"a": "b\ud800"})


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RcbError, match="it is no regular file"):
        read_text(FORM, tmp_path / "pipe")


def test_a_file_that_somebody_has_open_is_neither_read_nor_closed(tmp_path: Path):
    with open(tmp_path / "note", "w+b") as file:
        with pytest.raises(RcbError, match="int"):
            read_text(FORM, file.fileno())  # pyright: ignore[reportArgumentType]
        file.write(b"still open")
