"""Markup: what is not markup is escaped, and a script cannot be left from inside."""

import json

import pytest

from rcb_bayes.reporting.markup import Markup, as_script, join, table, tag


def test_children_and_attributes_are_escaped_unless_they_are_markup() -> None:
    made = tag("p", "<i>&", Markup("<br>"), tag("b", '"x"'), class_='a"b', data_label="<")
    assert made == '<p class="a&quot;b" data-label="&lt;">&lt;i&gt;&amp;<br><b>&quot;x&quot;</b></p>'


def test_none_is_left_out_and_zero_is_not() -> None:
    assert tag("p", None, 0, "", id=None, hidden=False) == "<p>0</p>"
    assert tag("input", disabled=True, name="n") == '<input disabled name="n">'
    assert join("a", None, Markup("<b>")) == "a<b>"


@pytest.mark.parametrize("text", ["</script>", "<!--", "]]>", "a & b", "\u2028\u2029", 'quote " and \\'])
def test_json_in_a_script_is_the_same_json_and_no_markup(text: str) -> None:
    script = as_script({"label": text})
    assert json.loads(script) == {"label": text}
    assert not set(script) & set("<>&\u2028\u2029")


def test_json_refuses_what_json_does_not_have() -> None:
    with pytest.raises(ValueError, match="JSON"):
        as_script([float("nan")])


def test_a_table_names_its_columns_in_every_cell() -> None:
    made = table(["arm", "n"], [["<a>", 3]])
    assert '<td data-label="arm">&lt;a&gt;</td>' in made
    assert '<td class="n" data-label="n">3</td>' in made
