"""What all pictures share."""

from itertools import pairwise

from medcoder.evaluate.plots.charts import COLOURS, MARKERS, new_figure, save


def test_shapes_differ_without_colour_and_neighbouring_colours_in_grey():
    assert len(set(MARKERS)) == len(MARKERS) == 12

    def grey(colour):
        red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
        return 0.299 * red + 0.587 * green + 0.114 * blue

    assert min(abs(grey(one) - grey(other)) for one, other in pairwise(COLOURS)) > 25


def test_saving_leaves_two_files_and_nothing_else(tmp_path):
    figure = new_figure(2, 2)
    figure.subplots().set_title("背痛")  # in no font: no warning
    assert save(figure, tmp_path / "new" / "v1.2.png") == [
        tmp_path / "new" / "v1.2.png",
        tmp_path / "new" / "v1.2.svg",
    ]
    assert save(figure, tmp_path / "new" / "v1.3")[0].name == "v1.3.png"
    assert sorted(file.name for file in (tmp_path / "new").iterdir()) == [
        "v1.2.png",
        "v1.2.svg",
        "v1.3.png",
        "v1.3.svg",
    ]
