"""The page, in a real browser, against a real service."""

import re
import shutil
import threading
from pathlib import Path

import pytest

from medcoder import Normalizer
from medcoder.kg import KG
from medcoder.kg.build import build_kg
from medcoder.mapping import FORMATS, Project, map_table
from medcoder.mapping.formats import export
from medcoder.normalize.build import build
from medcoder.serve.app import PAGE
from medcoder.serve.settings import Settings
from support import browser
from support.many import TYPES, many_terms, small_source
from support.mapped import CONCEPT, write_concepts
from support.maps import FakeMapper
from support.served import made, running, until

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="the browser tests need the package playwright"
)
expect = sync_api.expect
in_browser = pytest.mark.skipif(
    browser.CHROMIUM is None, reason="the browser tests need chromium: apt-get install chromium"
)
# By doubt: cold, mi, cold feeling, cefalea; fever and heart attack are automatic.
TABLE = """code,term,n
A1,heart attack,9
A2,mi,5
A3,fever,4
A4,cold,7
A5,cold feeling,2
A6,cefalea,1
A7,puzzle,1
"""
ORDER = ["cold", "mi", "cold feeling", "cefalea"]
EDGES = [("C901", "isa", "C900"), ("C902", "isa", "C901"), ("C901", "finding_site_of", "C004")]
PROJECTS = (
    "keys", "undo", "reload", "offline", "windows", "two", "stale", "bulk", "export", "seen",
    "promise",
)  # fmt: skip
TOKEN = "a token of sixteen and more"


@pytest.fixture(scope="module")
def normalizer(bag, tmp_path_factory):
    """The small graph, with edges to walk along."""
    folder = tmp_path_factory.mktemp("index")
    types = [(f"C{number:03}", *TYPES[number % 2]) for number in range(80)]
    source = small_source(many_terms(), types=types, edges=EDGES)
    build_kg([source], folder / "page.kg")
    build(KG.open(folder / "page.kg"), bag, folder / "page.index")
    return Normalizer.load(folder / "page.index")


@pytest.fixture(scope="module")
def projects(tmp_path_factory):
    """A project for each test that changes one, all the same."""
    folder = tmp_path_factory.mktemp("projects")
    (folder / "ward.csv").write_text(TABLE, encoding="utf-8")
    mapped = map_table(
        folder / "ward.csv", column="term", code="code", count="n", out=folder / "first",
        normalizer=FakeMapper(), precision=0.99,
    )  # fmt: skip
    made_of = {name: folder / name / "project.sqlite" for name in PROJECTS}
    for place in made_of.values():
        place.parent.mkdir()
        shutil.copyfile(mapped.path, place)
    return made_of


@pytest.fixture(scope="module")
def service(normalizer, projects, tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve")
    with running(made(None, folder, normalizer=normalizer, projects=projects)) as (at, _):
        yield at


@pytest.fixture(scope="module")
def people(service):
    with browser.people(service) as found:
        yield found


def decisions(path):
    """What stands in a project: concept, equivalence, note and who, by text."""
    with Project.open(path) as project:
        return {
            one.row.text: (made.concept, made.equivalence, made.note, made.who)
            for one in project.terms()
            if (made := one.decision) is not None
        }


def review(page, project, **query):
    more = "&".join(f"{name}={value}" for name, value in query.items())
    page.goto(f"/#/review/{project}?{more}")
    expect(page.locator(".term h1")).not_to_be_empty()


def in_front(page, text):
    expect(page.locator(".term h1")).to_have_text(text)


def saved(page):
    """All that was decided is acknowledged."""
    expect(page.locator(".card")).not_to_contain_text("saving")
    until(lambda: waiting(page) == [])


def waiting(page):
    """Texts of the terms whose decisions this browser keeps until they are acknowledged."""
    return page.evaluate(
        """() => Object.keys(localStorage).filter((key) => key.startsWith("medcoder.outbox")).sort()
        .map((key) => JSON.parse(localStorage.getItem(key)).text)"""
    )


# Look up


@in_browser
def test_concepts_appear_as_one_types_and_are_gone_through_with_arrows(people, normalizer):
    found = [one.concept for one in normalizer.normalize("hart atack", top=12).candidates]
    with people.person() as page:
        page.goto("/")
        expect(page.get_by_role("searchbox", name="Words to look up")).to_be_focused()
        page.keyboard.type("hart atack", delay=15)
        results = page.locator(".result")
        concepts = "all => all.map(one => one.dataset.concept)"
        until(lambda: results.evaluate_all(concepts) == found)  # not those of what was typed before
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        expect(results.nth(1)).to_be_focused()
        page.keyboard.press("Enter")
        expect(results.nth(1)).to_have_attribute("aria-current", "true")
        page.keyboard.press("Escape")
        expect(page.get_by_role("searchbox", name="Words to look up")).to_be_focused()
        page.reload()
        expect(results).to_have_count(len(found))
        expect(results.nth(1)).to_have_attribute("aria-current", "true")


@in_browser
def test_a_filter_restricts_and_is_in_the_address(people, normalizer):
    found = normalizer.normalize("cold", top=12, vocabularies=["ICD10CM"]).candidates
    with people.person() as page:
        page.goto("/#/look?q=cold")
        page.get_by_text("Vocabularies", exact=True).click()
        page.get_by_role("checkbox", name="ICD10CM").check()
        expect(page.locator(".result")).to_have_count(len(found))
        page.wait_for_url("**vocabularies=ICD10CM*")
        for place, one in enumerate(found):  # waits: there were as many before the filter
            result = page.locator(".result").nth(place)
            expect(result).to_have_attribute("data-concept", one.concept)
        page.keyboard.press("Escape")
        expect(page.locator(".filter-box:visible")).to_have_count(0)


@in_browser
def test_several_things_have_concepts_of_their_own(people):
    with people.person() as page:
        page.goto("/#/look?q=heart+attack%3B+rash+%28L%29")
        expect(page.locator(".cell u")).to_have_text(["heart attack", "rash (L)"])
        rash = page.get_by_role("region", name="rash (L)")
        expect(rash.locator(".taken")).to_contain_text("took off '(L)': side (left)")
        expect(rash.locator(".chip.said").first).to_have_text("left")
        page.get_by_label("Which concepts").select_option("leaf")
        page.wait_for_url("**targets=leaf*")
        expect(page.locator(".cell u")).to_have_count(2)


@in_browser
def test_one_walks_along_the_graph_by_keyboard(people, normalizer):
    kg = normalizer.kg
    start = "C901"
    with people.person() as page:
        page.goto(f"/#/look?q=cold&c={start}")
        concept = page.get_by_role("article", name="Concept")
        expect(concept.get_by_role("heading", level=1)).to_have_text(kg.preferred(start))
        texts = {term.text for term in kg.terms_of(start)}
        assert set(concept.locator(".synonyms dd > span").all_inner_texts()) == texts
        expect(concept.locator(".plot a")).not_to_have_count(0)
        assert sorted(concept.locator(".relations dt").all_inner_texts()) == [
            "Broader", "Narrower", "finding site of →"
        ]  # fmt: skip
        name = kg.preferred("C902")
        link = concept.locator(".relations a[href*='c=C902']")
        link.focus()
        page.keyboard.press("Enter")
        expect(concept.get_by_role("heading", level=1)).to_have_text(name)
        expect(concept.get_by_role("heading", level=1)).to_be_focused()
        expect(page.locator(".trail li")).to_have_text([kg.preferred(start), name])
        page.go_back()
        expect(concept.get_by_role("heading", level=1)).to_have_text(kg.preferred(start))


# Map


@in_browser
def test_a_file_is_mapped_and_one_that_is_no_table_refused(people, tmp_path):
    (tmp_path / "bad.xlsx").write_bytes(b"not a workbook")
    table = tmp_path / "clinic.csv"
    table.write_text("id,n,term\nA1,3,heart attack\nA2,2,fever cold\nA3,1,zzz qqq\n")
    with people.person() as page:
        page.goto("/#/map")
        page.locator("input[type=file]").set_input_files(tmp_path / "bad.xlsx")
        expect(page.get_by_role("alert")).to_contain_text("the file is not what")
        page.locator("input[type=file]").set_input_files(table)
        expect(page.get_by_label("Text to map")).to_have_value("term")
        expect(page.get_by_label("Your code")).to_have_value("id")
        expect(page.get_by_label("How often it occurs")).to_have_value("n")
        expect(page.locator(".preview tbody tr")).to_have_count(3)
        page.reload()
        page.get_by_role("button", name="Map", exact=True).click()
        done = page.locator(".job[data-state=done]", has_text="clinic.csv")
        expect(done).to_be_visible()
        done.get_by_role("link", name="Review").click()
        page.get_by_role("button", name=re.compile("^All")).click()
        expect(page.locator(".queue .what")).to_have_count(3)
        shown = set(page.locator(".queue .what").all_inner_texts())
        assert shown == {"heart attack", "fever cold", "zzz qqq"}


@in_browser
def test_a_file_is_dropped(people):
    with people.person() as page:
        page.goto("/#/map")
        zone = page.locator(".drop")
        held = page.evaluate_handle(
            """() => {
              const held = new DataTransfer();
              held.items.add(new File(["code;term\\nA1;fever\\n"], "dropped.csv"));
              return held;
            }"""
        )
        zone.dispatch_event("dragover", {"dataTransfer": held})
        expect(zone).to_have_class(re.compile(r"\bover\b"))
        zone.dispatch_event("drop", {"dataTransfer": held})
        expect(zone).not_to_have_class(re.compile(r"\bover\b"))
        expect(page.get_by_role("heading", name="dropped.csv")).to_be_visible()
        expect(page.get_by_label("Text to map")).to_have_value("term")
        assert page.locator(".preview td").all_inner_texts() == ["A1", "fever"]


@in_browser
def test_a_job_is_cancelled(people, tmp_path, monkeypatch):
    """It is held up until the page has said that it wants no more of it."""
    go_on, plain = threading.Event(), Normalizer.normalize_many

    def slow(self, texts, **options):
        assert list(texts) != ["wait for it"] or go_on.wait(30)
        return plain(self, texts, **options)

    monkeypatch.setattr(Normalizer, "normalize_many", slow)
    (tmp_path / "slow.csv").write_text("term\nwait for it\n")
    with people.person() as page:
        page.goto("/#/map")
        page.locator("input[type=file]").set_input_files(tmp_path / "slow.csv")
        page.get_by_role("button", name="Map", exact=True).click()
        job = page.locator(".job", has_text="slow.csv")
        try:
            expect(job).to_have_attribute("data-state", "running")
            with page.expect_response(lambda reply: reply.request.method == "DELETE") as cancelled:
                job.get_by_role("button", name="Cancel slow.csv").click()
            assert cancelled.value.status == 200
        finally:
            go_on.set()
        expect(job).to_have_attribute("data-state", "cancelled")
        expect(job.get_by_role("button")).to_have_count(0)
        expect(job.get_by_role("link")).to_have_count(0)
        page.goto("/#/export/export")
        expect(page.locator("#project option").first).to_be_attached()
        names = page.locator("#project option").all_inner_texts()
        assert names and not any("slow.csv" in name for name in names)


# Review


@in_browser
def test_review_with_keys(people, projects):
    with people.person() as page:
        review(page, "keys")
        expect(page.locator(".queue .what")).to_have_text(ORDER)
        in_front(page, "cold")
        page.keyboard.press("c")
        page.keyboard.type("a sensation? 1 n u")
        page.keyboard.press("Escape")
        page.keyboard.press("e")
        page.keyboard.press("2")
        in_front(page, "mi")
        page.keyboard.press("n")
        in_front(page, "cold feeling")
        page.keyboard.press("j")
        in_front(page, "cefalea")
        page.keyboard.press("k")
        in_front(page, "cold feeling")
        page.keyboard.press("/")
        field = page.get_by_role("combobox", name="Words to look up")
        expect(field).to_be_focused()
        field.fill("common cold")
        expect(page.locator(".options li").first).to_contain_text("Common cold")
        page.keyboard.press("Enter")
        in_front(page, "cefalea")
        page.keyboard.press("1")
        expect(page.get_by_text("That was the last one here.")).to_be_visible()
        saved(page)
    assert decisions(projects["keys"]) == {
        "cold": ("C4", "broader", "a sensation? 1 n u", "ann"),
        "mi": (None, "no match", "", "ann"),
        "cold feeling": ("C901", "equivalent", "", "ann"),
        "cefalea": ("C5", "equivalent", "", "ann"),
    }


@in_browser
def test_undo_goes_back_to_the_term(people, projects):
    with people.person() as page:
        review(page, "undo")
        page.keyboard.press("1")
        in_front(page, "mi")
        page.keyboard.press("n")
        in_front(page, "cold feeling")
        page.keyboard.press("u")
        in_front(page, "mi")
        expect(page.locator(".term .state")).to_have_text("To review")
        assert decisions(projects["undo"]) == {"cold": ("C3", "equivalent", "", "ann")}
        page.keyboard.press("u")
        in_front(page, "cold")
        assert decisions(projects["undo"]) == {}
        page.keyboard.press("u")
        expect(page.locator(".toast").last).to_contain_text("Nothing of yours is left to undo")
        page.keyboard.press("h")
        expect(page.locator(".history li")).to_have_count(2)


@in_browser
def test_a_reload_loses_nothing(people, projects):
    with people.person() as page:
        review(page, "reload", sort="count")
        page.keyboard.press("1")
        in_front(page, "mi")
        saved(page)
        page.keyboard.press("j")
        in_front(page, "cold feeling")
        page.keyboard.press("c")
        page.keyboard.type("half a note")
        page.reload()
        in_front(page, "cold feeling")
        expect(page.get_by_role("textbox", name="Note")).to_have_value("half a note")
        expect(page.get_by_label("Sort by")).to_have_value("count")
        expect(page.get_by_role("button", name=re.compile("^Decided"))).to_contain_text("1")
        page.locator(".term h1").click()
        page.keyboard.press("1")
        saved(page)
    stands = decisions(projects["reload"])
    assert stands["cold feeling"] == ("C4", "equivalent", "half a note", "ann")
    assert stands["cold"] == ("C3", "equivalent", "", "ann")


@in_browser
def test_decisions_wait_for_a_service_that_is_away(people, projects):
    with people.person() as page:
        review(page, "offline")
        page.route("**/decision", lambda route: route.abort())
        page.keyboard.press("1")
        in_front(page, "mi")
        page.keyboard.press("n")
        expect(page.locator(".waiting")).to_contain_text("2 decisions not saved yet")
        assert decisions(projects["offline"]) == {}
        page.unroute("**/decision")
        page.reload()
        saved(page)
    assert decisions(projects["offline"]) == {
        "cold": ("C3", "equivalent", "", "ann"),
        "mi": (None, "no match", "", "ann"),
    }


@in_browser
def test_windows_of_one_browser_keep_their_decisions_apart(people, projects):
    with people.person() as one:
        one.context.route("**/decision", lambda route: route.abort())
        other = one.context.new_page()
        review(one, "windows")
        review(other, "windows", sort="count")
        one.keyboard.press("1")
        in_front(one, "mi")
        other.keyboard.press("j")
        in_front(other, "mi")
        other.keyboard.press("n")
        in_front(other, "cold feeling")
        one.keyboard.press("j")
        in_front(one, "cold feeling")
        one.keyboard.press("n")
        in_front(one, "cefalea")
        assert waiting(one) == ["cold", "mi", "cold feeling"]
        one.close()
        other.context.unroute("**/decision")
        other.reload()
        saved(other)
    assert decisions(projects["windows"]) == {
        "cold": ("C3", "equivalent", "", "ann"),
        "mi": (None, "no match", "", "ann"),
        "cold feeling": (None, "no match", "", "ann"),
    }


@in_browser
def test_two_reviewers_see_each_other(people, projects):
    with people.person("ann") as ann, people.person("bob") as bob:
        review(ann, "two")
        review(bob, "two")
        in_front(bob, "cold")
        ann.keyboard.press("2")
        in_front(ann, "mi")
        expect(bob.locator(".others")).to_have_text("ann decided: Cold sensation")
        expect(bob.locator(".decided")).to_contain_text("Cold sensation – ann")
        bob.keyboard.press("1")  # seen and meant: no question is asked
        saved(bob)
    assert decisions(projects["two"]) == {"cold": ("C3", "equivalent", "", "bob")}


@in_browser
def test_a_stale_decision_shows_both_versions(people, projects):
    theirs = ("C3", "equivalent", "as always", "ann")
    with people.person("bob") as bob:
        bob.route("**/changes*", lambda route: route.abort())  # bob hears of nothing
        review(bob, "stale")
        with Project.open(projects["stale"]) as project:
            for key in (4, 2):
                project.decide(key, "C3", who="ann", note="as always", name="Common cold")
        box = bob.get_by_role("dialog", name="Somebody else decided meanwhile")
        for text, keep in (("cold", "Keep theirs"), ("mi", "Put mine instead")):
            in_front(bob, text)
            bob.keyboard.press("n")
            expect(box.locator("section").nth(0)).to_contain_text("Common cold")
            expect(box.locator("section").nth(0)).to_contain_text("as always")
            expect(box.locator("section").nth(1)).to_contain_text("no match")
            assert decisions(projects["stale"])[text] == theirs
            box.get_by_role("button", name=keep).click()
            expect(box).to_have_count(0)
            saved(bob)
        bob.get_by_role("button", name=re.compile("^Decided")).click()
        in_front(bob, "cold")
        expect(bob.locator(".decided")).to_contain_text("Common cold – ann")
        expect(bob.locator(".queue .what")).to_have_text(["cold", "mi"])
    assert decisions(projects["stale"]) == {"cold": theirs, "mi": (None, "no match", "", "bob")}


@in_browser
def test_bulk_accept_takes_what_is_sure(people, projects):
    with people.person() as page:
        review(page, "bulk")
        page.keyboard.press("b")
        field = page.get_by_label("Share that must be right, in %")
        field.fill("95")
        page.get_by_role("button", name="Accept 5").click()
        expect(page.locator(".toast")).to_contain_text("5 terms accepted")
        expect(page.locator(".queue .what")).to_have_text(["cold"])
    assert {text: made[0] for text, made in decisions(projects["bulk"]).items()} == {
        "heart attack": "C1", "fever": "C2", "cefalea": "C5", "mi": "C1", "cold feeling": "C4",
    }  # fmt: skip


@in_browser
def test_a_promise_that_is_broken_is_a_warning(people, projects):
    """Both automatic mappings turn out wrong, while somebody else looks."""
    with people.person() as page, Project.open(projects["promise"]) as project:
        review(page, "promise")
        warning = page.get_by_role("status").filter(has_text="Warning")
        expect(warning).to_have_count(0)
        project.decide("fever", "C1", who="bob")
        project.decide("heart attack", "C2", who="bob")
        expect(warning).to_be_visible()
        expect(warning).to_have_text(
            "Warning: the promise is not kept: 99.0% of automatic mappings were to be right, and "
            "of 2 that people looked at, 0 were (0%, at most 84.2% by a 95% interval). Run "
            "medcoder map calibrate on the project, or the command that made it with a higher "
            "--precision."
        )
        assert page.evaluate(browser.FAINT) == []
        page.reload()
        expect(warning).to_be_visible()
        project.undo("fever", who="bob")
        project.undo("heart attack", who="bob")
        expect(warning).to_have_count(0)


@in_browser
def test_who_reviews_is_asked_once(people, projects):
    with people.person(None) as page:
        review(page, "seen")
        page.keyboard.press("1")
        page.get_by_label("Your name").fill("cleo")
        page.keyboard.press("Enter")
        in_front(page, "mi")
        saved(page)
        page.keyboard.press("u")
        in_front(page, "cold")
    with Project.open(projects["seen"]) as project:
        assert [event.who for event in project.history()] == ["cleo", "cleo"]


# Export


@in_browser
def test_every_format_is_downloaded_or_says_why_not(people, projects, tmp_path):
    with people.person() as page:
        page.goto("/#/export/export")
        expect(page.locator("[data-format]")).to_have_count(len(FORMATS))
        for name in FORMATS:
            button = page.locator(f"[data-format={name}]")
            if name in ("omop", "usagi"):  # the terminology is none of OMOP
                button.click()
                expect(page.locator(".format .error").last).to_contain_text("CONCEPT.csv")
                continue
            with page.expect_download() as download:
                button.click()
            assert download.value.suggested_filename == f"export{FORMATS.load(name).ending}"
            download.value.save_as(tmp_path / name)
            expect(page.locator(".format", has=button).locator("li").first).to_be_visible()
    with Project.open(projects["export"]) as project:
        for name in ("csv", "sssom"):
            export(project, name, tmp_path / f"{name}.same")
            assert (tmp_path / name).read_bytes() == (tmp_path / f"{name}.same").read_bytes()


@in_browser
def test_a_format_is_asked_for_with_the_options_that_it_has(people, projects, tmp_path):
    with people.person() as page:
        page.goto("/#/export/export")
        sssom = page.locator(".format", has=page.locator("[data-format=sssom]"))
        sssom.get_by_text("Options").click()
        sssom.get_by_label("licence").fill("https://example.org/licence")
        with page.expect_download() as download:
            sssom.get_by_role("button", name="Download").click()
        assert "https://example.org/licence" in Path(download.value.path()).read_text("utf-8")


@in_browser
def test_the_project_that_was_chosen_last_is_shown(people):
    with people.person() as page:
        page.goto("/#/export/export")
        expect(page.locator("[data-format]")).to_have_count(len(FORMATS))
        held = []
        page.route("**/projects/undo", lambda route: held.append(route))  # noqa: PLW0108  # playwright marks what it is given
        page.get_by_label("Project").select_option("undo")
        until(lambda: page.wait_for_timeout(20) or held)
        page.evaluate("document.querySelector('.formats').id = 'before'")
        page.get_by_label("Project").select_option("seen")
        expect(page.locator("#before")).to_have_count(0)
        expect(page.get_by_label("Project")).to_have_value("seen")
        with page.expect_response("**/projects/undo"):
            held[0].continue_()
        page.wait_for_timeout(200)
        expect(page.get_by_label("Project")).to_have_value("seen")
        with page.expect_download() as download:
            page.locator("[data-format=csv]").click()
        assert download.value.suggested_filename == "seen.csv"


@in_browser
def test_formats_of_omop_with_a_concept_table(people, projects, tmp_path):
    """Sent for one format, it serves the other too."""
    with people.person() as page:
        page.goto("/#/export/export")
        omop = page.locator(".format", has=page.locator("[data-format=omop]"))
        usagi = page.locator(".format", has=page.locator("[data-format=usagi]"))
        table = omop.get_by_label("CONCEPT.csv from Athena")
        (tmp_path / "other.csv").write_text("a,b\n")
        table.set_input_files(tmp_path / "other.csv")
        expect(omop.locator(".concepts .error")).to_contain_text("no CONCEPT table")
        some = write_concepts(tmp_path, CONCEPT[:1])
        table.set_input_files(some)
        for card in (omop, usagi):
            expect(card.locator(".concepts")).to_contain_text("CONCEPT.csv is there")
        omop.get_by_role("button", name="Download").click()
        expect(omop.locator("[role=status] .error")).to_contain_text("have no concept")
        for name, card in (("omop", omop), ("usagi", usagi)):
            card.get_by_role("checkbox", name="Concepts that it lacks become 0").check()
            with page.expect_download() as download:
                card.get_by_role("button", name="Download").click()
            download.value.save_as(tmp_path / name)
            expect(card.locator("li", has_text="got concept 0")).to_be_visible()
    with Project.open(projects["export"]) as project:
        for name in ("omop", "usagi"):
            export(project, name, tmp_path / "same", concepts=some, missing_ok=True)
            assert (tmp_path / name).read_bytes() == (tmp_path / "same").read_bytes()


# For everybody


VIEWS = {  # and what is there once they are shown
    "/#/look?q=cold&c=C901": ".plot",
    "/#/look": ".found .empty",
    "/#/map": ".drop",
    "/#/review/seen": ".offer",
    "/#/export/export": "[data-format]",
}


@in_browser
def test_every_view_is_legible_named_and_fits(people):
    with people.person() as page:
        for view, shown in VIEWS.items():
            page.goto(view)
            expect(page.locator(shown).first).to_be_visible()
            for width in (380, 900, 1400):
                page.set_viewport_size({"width": width, "height": 800})
                assert page.evaluate("document.documentElement.scrollWidth") <= width, view
                assert page.evaluate(browser.NAMELESS) == [], view
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                assert page.evaluate(browser.FAINT) == [], view


@in_browser
def test_a_token_is_asked_for(people, normalizer, tmp_path):
    app = made(None, tmp_path, normalizer=normalizer, settings=Settings(token=TOKEN))
    with running(app) as (address, _), people.person(address=address) as page:
        page.goto("/#/look?q=cold")
        page.get_by_role("textbox", name="Token").fill(TOKEN)
        page.keyboard.press("Enter")
        expect(page.locator(".result").first).to_be_visible()


@in_browser
def test_nothing_is_asked_of_others(people, service):
    assert people.asked()
    assert {url for url in people.asked() if not url.startswith("http://127.0.0.1:")} <= {
        url for url in people.asked() if url.startswith("blob:http://127.0.0.1:")
    }


def test_files_of_the_page_are_all_there_and_all_used():
    files = {path.name: path.read_text(encoding="utf-8") for path in Path(PAGE).iterdir()}
    named = {"index.html"}
    for name, text in files.items():
        if name.endswith(".js"):
            named |= set(re.findall(r'(?:from|import)\s*\(?"\./([\w.]+)"', text))
    named |= set(re.findall(r'(?:src|href)="([\w]+\.\w+)"', files["index.html"]))
    assert named == set(files)


def test_the_page_holds_no_markup_from_text_and_nothing_inline():
    for path in Path(PAGE).iterdir():
        text = path.read_text(encoding="utf-8")
        assert "innerHTML" not in text and "insertAdjacent" not in text, path.name
        assert not re.search(r"\bstyle=|<style|\bon\w+=\"|<script(?! type=\"module\" src)", text)
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), path.name
