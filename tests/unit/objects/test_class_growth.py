"""Classes that grow: the many parts, and the rare ones that they are parts of."""

from ramledger.objects.census.class_growth import CountHistory


def history(looks: int) -> CountHistory:
    found = CountHistory()
    for look in range(looks):
        parts = {f"matplotlib.transforms.Part{i}": 1000 * (look + 1) for i in range(50)}
        found.add(
            parts
            | {"matplotlib.figure.Figure": 2 + look, "numpy.Flat": 7, "train.Env": 3 - look % 2}
        )
    return found


def test_a_figure_is_found_among_its_parts() -> None:
    found = history(4)
    assert "matplotlib.figure.Figure" not in found.most_grown(40)
    assert found.rare_but_steady(10)[0] == "matplotlib.figure.Figure"


def test_what_is_flat_or_falls_is_not_growing() -> None:
    names = history(5).rare_but_steady(100)
    assert "numpy.Flat" not in names
    assert "train.Env" not in names


def test_one_look_tells_nothing() -> None:
    assert history(1).most_grown(5) == []
    assert history(1).rare_but_steady(5) == []


def test_classes_that_appear_later_count_from_zero() -> None:
    found = history(2)
    found.add({"train.Trial": 3})
    assert "train.Trial" in found.most_grown(60)
