"""The dashboard in a real browser, against the real system: one cluster, one coordinator, three brokers, and people."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from e2e.browser import NAMES, find_browser
from e2e.town import API_TOKEN, VIEWER_TOKEN, Town, running_town

_EXECUTABLE = find_browser()
_PATIENCE_MS = 20_000
#: What charts say once there is something to say.
_LOADED = re.compile(r"broker-1 (\d{3} B|[\d.]+ kB)/s")
_TIMED = re.compile(r"p50 [\d.]+ m?s")
_PAGES = ("overview", "map", "brokers", "channels", "balancing", "audit")

pytestmark = [
    pytest.mark.shell,
    pytest.mark.skipif(_EXECUTABLE is None, reason=f"no browser is installed: none of {', '.join(NAMES)}"),
]


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    folder = tmp_path_factory.mktemp("town")
    with running_town(folder, brokers=3, people=30, rates_window_s=5) as town, town.busy(4):
        yield town


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # Tests may run as root, where the browser's own sandbox does not work; it only ever sees loopback.
        browser = playwright.chromium.launch(executable_path=_EXECUTABLE, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Visit:
    """A signed-in tab. What the browser complains about is collected."""

    page: Page
    town: Town
    complaints: list[str] = field(default_factory=list)
    #: Parts of complaints that a test brings about on purpose.
    expected: list[str] = field(default_factory=list)

    def complain(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)

    def open(self, *parts: str) -> Page:
        self.page.goto(f"{self.town.url}/dashboard/#/{'/'.join(parts)}")
        expect(self.page.locator("main h1")).to_be_attached()
        return self.page

    def sign_in(self, token: str, name: str = "ada") -> None:
        self.page.goto(f"{self.town.url}/")
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_label("Your name").fill(name)
        self.page.get_by_role("button", name="Sign in").click()

    def confirm(self, button: str) -> None:
        self.page.get_by_role("dialog").get_by_role("button", name=button).click()

    def saw(self, text: str) -> None:
        """A toast says so."""
        expect(self.page.locator(".toast").filter(has_text=text).last).to_be_visible()

    def words(self, chart: str) -> str:
        return self.page.locator(f'[data-chart="{chart}"]').get_attribute("aria-label") or ""

    def unexpected(self) -> list[str]:
        return [one for one in self.complaints if not any(part in one for part in self.expected)]


@pytest.fixture
def visitors(town: Town, browser: Browser) -> Iterator[Any]:
    """Makes tabs, and at the end asserts that no browser had anything to complain about."""
    visits: list[Visit] = []

    def arrive(token: str | None = API_TOKEN, **options: Any) -> Visit:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        context.set_default_timeout(_PATIENCE_MS)
        visit = Visit(context.new_page(), town)
        visit.page.on("console", visit.complain)
        visit.page.on("pageerror", lambda error: visit.complaints.append(str(error)))
        visits.append(visit)
        if token is not None:
            visit.sign_in(token)
            expect(visit.page.locator(".state")).to_contain_text("active")
        return visit

    expect.set_options(timeout=_PATIENCE_MS)
    yield arrive
    for visit in visits:
        visit.page.context.close()
    assert [one for visit in visits for one in visit.unexpected()] == []


def test_signing_in(visitors: Any) -> None:
    """Without a token there is nothing to see; a wrong one is refused in the server's words; the right one lets in."""
    visit = visitors(token=None)
    visit.expected.append("401")
    visit.sign_in("guessed")
    expect(visit.page.get_by_role("alert")).to_contain_text("give the coordinator's API token")
    expect(visit.page.locator(".tiles")).to_have_count(0)
    visit.page.get_by_label("Token").fill(API_TOKEN)
    visit.page.get_by_role("button", name="Sign in").click()
    expect(visit.page.locator(".tiles")).to_contain_text("Subscribers")
    visit.page.reload()
    expect(visit.page.locator(".tiles")).to_be_visible()
    visit.page.get_by_role("button", name="Sign out").click()
    expect(visit.page.get_by_label("Token")).to_be_visible()


def test_viewers_look_and_change_nothing(visitors: Any, town: Town) -> None:
    """The read-only role sees everything and is offered nothing to do; the server refuses it whatever it sends."""
    visit = visitors(VIEWER_TOKEN)
    expect(visit.page.locator(".who")).to_contain_text("read-only")
    visit.open("brokers")
    expect(visit.page.locator("tr[data-broker]")).to_have_count(3)
    expect(visit.page.get_by_role("button", name="Drain")).to_have_count(0)
    visit.open("balancing")
    expect(visit.page.get_by_text("Only operators make plans")).to_be_visible()
    expect(visit.page.get_by_role("switch")).to_be_disabled()
    visit.open("channels", "try", "EmergenciesOfType")
    expect(visit.page.get_by_text("Only operators can try channels")).to_be_visible()
    viewer = {"Authorization": f"Bearer {VIEWER_TOKEN}"}
    for method, path, body in [
        ("PUT", "/v1/brokers/broker-1/state", {"state": "draining"}),
        ("PUT", "/v1/balancing", {"alpha": 0.9}),
        ("POST", "/v1/plans", {}),
        ("POST", "/dashboard/api/channels", {"channel": "EmergenciesOfType", "paused": True}),
        ("POST", "/dashboard/api/try", {"channel": "EmergenciesOfType", "parameters": {"etype": "fire"}}),
        ("DELETE", "/v1/users/p0", None),
    ]:
        answer = httpx.request(method, f"{town.url}{path}", json=body, headers=viewer)
        assert answer.status_code == 403, (path, answer.text)
        assert "allows reading only" in answer.json()["error"]["message"]


def test_load_is_seen_to_move(visitors: Any, town: Town) -> None:
    """What is published shows in charts within seconds: in their words, and as something drawn."""
    visit = visitors()
    page = visit.open("overview")
    expect(page.locator('[data-chart="Load by broker"]')).to_be_visible()
    before = visit.words("Load by broker")
    assert "broker-1" in before
    assert "broker-3" in before
    notified = page.locator(".tile", has_text="Notifications").locator("dd").first
    town.publish(60)
    expect(notified).not_to_have_text("0/s")
    expect(page.locator('[data-chart="Notification latency"]')).to_have_attribute("aria-label", _TIMED)
    expect(page.locator(".tile", has_text="Latency p50").locator("dd").first).to_contain_text("s")
    expect(page.locator('[data-chart="Load by broker"]')).not_to_have_attribute("aria-label", before)
    expect(page.locator('[data-chart="Load by broker"]')).to_have_attribute("aria-label", _LOADED)
    for name in ("Load by broker", "cov", "Subscribers per broker"):
        assert _colours(page, f'[data-chart="{name}"] canvas') > 5, name
    page.get_by_role("button", name="24 h").click()
    expect(page.get_by_role("button", name="24 h")).to_have_attribute("aria-pressed", "true")


def test_a_plan_is_previewed_and_carried_out(visitors: Any, town: Town) -> None:
    """Before and after with reasons; Escape leaves everything as it is; carried out, people are elsewhere, also on the
    map, and the plan is in the lists with its reason."""
    # The load model knows what each subscription brings once it has seen it for a while.
    _until(lambda: (town.ask("/v1/balancing")["max"] or 0) > 500)
    visit = visitors()
    page = visit.open("map")
    at_first = page.locator(".map-side li", has_text="broker-1").locator(".number")
    expect(at_first).to_have_text(str(_at(town, "broker-1")))
    assert _colours(page, ".map-box canvas") > 5
    page = visit.open("balancing")
    page.get_by_label("Reason").fill("the first broker has too many")
    page.get_by_role("button", name="Preview a plan").click()
    preview = page.locator("[data-plan]")
    expect(preview).to_contain_text("lower bound")
    expect(preview.locator(".moves")).to_contain_text("broker-1")
    expect(preview.locator(".moves")).to_contain_text("most loaded broker")
    were = town.people.brokers()
    page.get_by_role("button", name="Carry out").click()
    expect(page.get_by_role("dialog")).to_contain_text("Move")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Carry out").click()
    visit.confirm("Carry it out")
    visit.saw("is being carried out")
    done = page.locator("tr[data-execution]").filter(has_text="the first broker has too many")
    expect(done).to_contain_text("done")
    done.get_by_role("button", name="Moves of").click()
    expect(page.locator(".steps")).to_contain_text("broker-1")
    moved = {name for name, broker in town.people.brokers().items() if were[name] != broker}
    assert moved
    page = visit.open("map")
    # A plan may move people between the other brokers too.
    left = list(town.people.brokers().values()).count("broker-1")
    assert left < list(were.values()).count("broker-1")
    expect(at_first).to_have_text(str(left))
    page = visit.open("overview")
    expect(page.locator(".plans")).to_contain_text("the first broker has too many")
    page = visit.open("audit")
    page.get_by_label("Show entries that contain").fill("execute")
    expect(page.locator(".audit tbody tr").first).to_contain_text("ada")


def test_a_broker_is_cordoned_and_drained(visitors: Any, town: Town) -> None:
    """A drained broker is empty within seconds, and takes people again when it is activated."""
    visit = visitors()
    page = visit.open("brokers")
    row = page.locator("tr[data-broker=broker-2]")
    row.get_by_role("button", name="Cordon").click()
    expect(row).to_contain_text("cordoned")
    row.get_by_role("button", name="Drain").click()
    expect(page.get_by_role("dialog")).to_contain_text("will be moved to other brokers")
    visit.confirm("Drain")
    expect(row).to_contain_text("draining")
    expect(row.locator("td[data-label=Subscribers]")).to_contain_text("0 0 connected", use_inner_text=True)
    assert "broker-2" not in town.people.brokers().values()
    row.get_by_role("button", name="Activate").click()
    expect(row.locator("td[data-label=State]")).to_have_text("active")


def test_settings_are_switched(visitors: Any, town: Town) -> None:
    """Thresholds and policies are changed and stay so; what can't be is refused in the server's words."""
    visit = visitors()
    visit.expected.append("422")
    page = visit.open("balancing")
    page.locator("input[name=alpha]").fill("0.25")
    page.locator("select[name=migration]").select_option("ldm")
    page.get_by_role("button", name="Save").click()
    visit.saw("Settings saved")
    settings = town.ask("/v1/balancing")["settings"]
    assert (settings["alpha"], settings["migration"]) == (0.25, "ldm")
    page.get_by_label("Placement of new subscribers").select_option("round-robin")
    visit.saw("round-robin")
    assert town.ask("/v1/placement-policy")["policy"] == "round-robin"
    page.locator("input[name=alpha]").fill("a lot")
    page.get_by_role("button", name="Save").click()
    visit.saw("alpha")
    expect(page.locator(".toast.error")).to_be_visible()
    assert town.ask("/v1/balancing")["settings"]["alpha"] == 0.25
    page = visit.open("overview")
    expect(page.locator('[data-chart="cov"]')).to_have_attribute("aria-label", re.compile("α 0.25"))
    town.change("PUT", "/v1/balancing", {"alpha": 0.15, "migration": "group"})
    town.change("PUT", "/v1/placement-policy", {"policy": "nearest"})


def test_a_channel_is_paused_and_resumed(visitors: Any, town: Town) -> None:
    """It is the cluster's channel that is paused, and the audit log tells who did it."""
    visit = visitors()
    page = visit.open("channels")
    row = page.locator("tr[data-channel=SevereEmergencies]")
    row.get_by_role("button", name="Pause").click()
    expect(row).to_contain_text("paused")
    channels = {one["name"]: one for one in town.cluster.status()["channels"]}
    assert channels["SevereEmergencies"]["is_paused"]
    row.get_by_role("button", name="Resume").click()
    expect(row).to_contain_text("running")
    entries = town.ask("/v1/audit?limit=2")["entries"]
    assert [(one["who"], one["action"], one["subject"]) for one in entries] == [
        ("ada", "resume", "SevereEmergencies"),
        ("ada", "pause", "SevereEmergencies"),
    ]


def test_who_may_subscribe_is_shown(visitors: Any, town: Town) -> None:
    """A channel for everybody, and one for a class, with what brokers fill in."""
    town.cluster.sql("""
        CREATE CONTINUOUS CHANNEL ForMedics (etype STRING IS USER) AS
          SELECT r.id FROM Reports r WHERE is_new(r) AND r.etype = :etype;
        REVOKE SUBSCRIBE ON CHANNEL ForMedics FROM ALL;
        GRANT SUBSCRIBE ON CHANNEL ForMedics TO CLASS medics
    """)
    page = visitors().open("channels")
    expect(page.locator("tr[data-channel=SevereEmergencies]")).to_contain_text("granted to all")
    row = page.locator("tr[data-channel=ForMedics]")
    expect(row).to_contain_text("granted to medics")
    expect(row).to_contain_text("etype IS USER")
    town.cluster.sql("DROP CHANNEL ForMedics")


def test_a_notification_arrives(visitors: Any, town: Town) -> None:
    """A channel is tried with parameters that were typed in, and what is published then arrives in the page."""
    visit = visitors()
    page = visit.open("channels", "try", "EmergenciesOfType")
    page.get_by_label("etype").fill("fire")
    page.get_by_role("button", name="Subscribe").click()
    expect(page.get_by_text("listening")).to_be_visible()
    fire = next(one for one in town.publish(30) if one["etype"] == "fire")
    arrived = page.get_by_label("Notifications").get_by_text(fire["id"], exact=True)
    expect(arrived).to_be_visible()
    visit.open("overview")
    expect(page.locator(".tiles")).to_be_visible()
    # Nobody wants it any more: the trial has unsubscribed.
    _until(lambda: "dashboard/" not in str(_connected(town)))


def test_errors_are_shown_as_such(visitors: Any) -> None:
    """A parameter of the wrong type, an unknown channel, and a dataset that is not there are told in words."""
    visit = visitors()
    visit.expected += ["422", "404"]
    page = visit.open("channels", "try", "EmergenciesNear")
    for name, text in {"etype": "fire", "x": "here", "y": "0", "radius_m": "500"}.items():
        page.locator(f"input[name={name}]").fill(text)
    page.get_by_role("button", name="Subscribe").click()
    expect(page.get_by_role("alert")).to_contain_text("x must be a finite number, not 'here'")
    visit.open("channels", "try", "Nowhere")
    expect(page.get_by_text("no channel called Nowhere")).to_be_visible()
    visit.open("channels", "dead-letters", "Nowhere")
    expect(page.get_by_role("alert")).to_contain_text("no dataset called Nowhere")


def test_dead_letters_are_replayed(visitors: Any, town: Town) -> None:
    """What was refused is shown with its reason and can be replayed; what still does not fit is refused again."""
    town.cluster.publish("reports", b'{"id": "bad", "severity": "very"}', wait_commit=True)
    visit = visitors()
    page = visit.open("channels")
    expect(page.locator("tr[data-feed=reports]").locator("td[data-label=Rejected]")).to_contain_text("1")
    page.get_by_label("Dead letters of Reports").click()
    letter = page.locator("tr", has_text='"severity": "very"')
    expect(letter).to_contain_text("expected a whole number")
    before = town.cluster.dead_letters("Reports")["dead_letters"][0]["position"]
    letter.get_by_role("button", name="Replay").click()
    visit.saw("1 record replayed: 0 accepted, 1 rejected")
    assert town.cluster.dead_letters("Reports")["dead_letters"][0]["position"] > before
    assert town.ask("/v1/audit?limit=1")["entries"][0]["action"] == "replay"


def test_dead_letters_are_discarded(visitors: Any, town: Town) -> None:
    """One, or all, once that was confirmed; more than a page can be shown."""
    town.cluster.publish("reports", b"\n".join([b'{"id": "worse", "severity": "very"}'] * 102), wait_commit=True)
    total = town.cluster.dead_letters("Reports")["total"]
    visit = visitors()
    page = visit.open("channels", "dead-letters", "Reports")
    rows = page.locator("tbody tr", has=page.get_by_role("button", name="Discard"))
    expect(rows).to_have_count(100)
    page.get_by_role("button", name="Older dead letters").click()
    expect(rows).to_have_count(total)
    rows.first.get_by_role("button", name="Discard").click()
    visit.confirm("Discard")
    visit.saw("1 dead letter discarded")
    page.get_by_role("button", name="Discard all").click()
    visit.confirm("Discard all")
    visit.saw(f"{total - 1} dead letters discarded")
    expect(page.get_by_text("None: every record fitted its dataset.")).to_be_visible()
    assert town.cluster.dead_letters("Reports")["total"] == 0
    assert town.ask("/v1/audit?limit=1")["entries"][0]["action"] == "discard"


def test_a_question_ends_with_its_page(visitors: Any, town: Town) -> None:
    """Who goes elsewhere instead of answering has not agreed, and is not asked on another page."""
    town.cluster.publish("reports", b'{"id": "asked", "severity": "very"}', wait_commit=True)
    visit = visitors()
    page = visit.open("channels", "dead-letters", "Reports")
    page.get_by_role("button", name="Replay all").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.evaluate("location.hash = '#/brokers'")
    expect(page.locator("tr[data-broker]").first).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.go_back()
    expect(page.get_by_role("button", name="Replay all")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Discard all").click()
    visit.confirm("Discard all")
    expect(page.get_by_text("None: every record fitted its dataset.")).to_be_visible()


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_it_fits_a_phone(visitors: Any, colours: str) -> None:
    """At 360 pixels nothing has to be scrolled sideways, in light and dark."""
    visit = visitors(viewport={"width": 360, "height": 740}, color_scheme=colours, is_mobile=True, has_touch=True)
    for name in _PAGES:
        page = visit.open(name)
        expect(page.locator("main .panel").first).to_be_visible()
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 360, name
    assert page.evaluate("document.documentElement.dataset.theme") == colours
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 17, 23)"
    assert dark == (colours == "dark")


def test_it_is_used_by_keyboard(visitors: Any) -> None:
    """The content is one key away, pages and buttons are reached by Tab, and focus is visible."""
    visit = visitors()
    page = visit.open("overview")
    page.locator("body").press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="5 min")).to_be_focused()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.get_by_role("link", name="Brokers").focus()
    page.keyboard.press("Enter")
    expect(page.locator("tr[data-broker]").first).to_be_visible()


def test_nothing_is_fetched_from_elsewhere(visitors: Any, town: Town) -> None:
    """All that the page loads comes from the coordinator, under a policy that allows nothing else."""
    visit = visitors()
    asked: list[str] = []
    visit.page.on("request", lambda request: asked.append(request.url))
    answer = visit.page.goto(f"{town.url}/dashboard/")
    assert answer is not None
    assert answer.headers["content-security-policy"].startswith("default-src 'self'")
    for name in _PAGES:
        visit.open(name)
    assert asked
    assert [one for one in asked if not one.startswith(f"{town.url}/")] == []


def _colours(page: Page, selector: str) -> int:
    """How many different colours a canvas has: an empty one has one."""
    script = """canvas => {
        const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data
        const seen = new Set()
        for (let at = 0; at < pixels.length; at += 4) {
            seen.add(`${pixels[at]} ${pixels[at + 1]} ${pixels[at + 2]} ${pixels[at + 3]}`)
        }
        return seen.size
    }"""
    return int(page.locator(selector).first.evaluate(script))


def _at(town: Town, broker: str) -> int:
    return list(town.people.brokers().values()).count(broker)


def _connected(town: Town) -> list[str]:
    found = town.ask("/v1/subscribers?limit=10000")["subscribers"]
    return [one["subscriber"] for one in found if one["connected"]]


def _until(condition: Any, patience_s: float = 20.0) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.1)
