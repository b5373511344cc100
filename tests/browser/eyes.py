"""A headless Chromium that looks at Dagster's pages as a user does: by the words on them.

Put here: starting it, waiting for words, clicking on them, and taking pictures. Not here: which words a test expects.

Nothing sleeps: each look waits for what it looks for, and a test fails with the words that are there instead. The
driver is the system's own, beside its browser; neither is downloaded.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException, TimeoutException, WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
DRIVER = "chromedriver"
PATIENCE = 60
"""Seconds for a page to show something on a busy machine."""
WIDTH, HEIGHT = 1280, 800
IS_STILL = """
return document.getAnimations().every(
  animation => animation.playState !== "running" || animation.effect.getComputedTiming().endTime === Infinity)
"""
"""True if all transitions of a page have ended. What turns forever is not waited for."""


def resize(driver: WebDriver, height: int) -> None:
    size = {"width": WIDTH, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def lacking() -> str | None:
    """Program that is missing for a look at pages; None where all are there."""
    if not any(map(shutil.which, BROWSERS)):
        return f"there is no {BROWSERS[0]} on the PATH"
    return None if shutil.which(DRIVER) else f"there is no {DRIVER} on the PATH"


def _visible(driver: WebDriver, path: str) -> WebElement | None:
    """The first visible element of an XPath; a page that is rendered again has another one."""
    return next((found for found in driver.find_elements(By.XPATH, path) if found.is_displayed()), None)


@dataclass(frozen=True, slots=True)
class Eyes:
    """A browser on the pages below an address; ``pictures`` is the folder that pictures are put into, if any are."""

    driver: WebDriver
    url: str
    pictures: Path | None = None

    def open(self, path: str) -> None:
        self.driver.get(f"{self.url}{path}")

    def words(self) -> str:
        """All that the page shows."""
        return self.driver.find_element(By.TAG_NAME, "body").text

    def see(self, *words: str, seconds: float = PATIENCE) -> str:
        """Waits until the page shows all of these; its words then."""
        text = ""

        def all_shown(_: WebDriver) -> bool:
            nonlocal text
            text = self.words()
            return all(word in text for word in words)

        self._wait(all_shown, seconds, lambda: f"{[word for word in words if word not in text]} not in:\n{text}")
        return text

    def miss(self, words: str) -> None:
        """Waits until the page shows these no more."""
        self._wait(lambda _: words not in self.words(), PATIENCE, lambda: f"{words!r} is still on the page")

    def show_in_order(self, *paths: str) -> None:
        """Waits until the page shows the first visible element of each XPath to the left of the next one's."""

        def in_order(driver: WebDriver) -> bool:
            elements = [_visible(driver, path) for path in paths]
            indexes = [element.location["x"] for element in elements if element]
            return len(indexes) == len(paths) and indexes == sorted(indexes)

        self._wait(in_order, PATIENCE, lambda: f"not from left to right: {paths}")

    def click(self, path: str) -> None:
        """Clicks on the first visible element of an XPath, as soon as it stands still and nothing covers it.

        A click goes to the place that the element had a moment before: a graph that is fitted into its frame moves on.
        """
        rect: dict[str, float] | None = None

        def clicked(driver: WebDriver) -> bool:
            nonlocal rect
            element, before = _visible(driver, path), rect
            rect = element.rect if element else None
            if element is None or rect != before:
                return False
            element.click()
            return True

        self._wait(clicked, PATIENCE, lambda: f"{path} cannot be clicked on")

    def press(self, label: str) -> None:
        """Clicks on a button by what it says."""
        self.click(f"//button[normalize-space()={label!r} and not(@disabled)]")

    def write(self, text: str) -> None:
        """Gives the page's editor another text."""

        def written(driver: WebDriver) -> bool:
            editor = _visible(driver, "//*[contains(@class, 'CodeMirror')]")
            if editor is None:
                return False
            driver.execute_script("arguments[0].CodeMirror.setValue(arguments[1])", editor, text)
            return True

        self._wait(written, PATIENCE, lambda: "the page has no editor")

    def reach(self, words: str) -> None:
        """Waits until the page's address has these."""
        self._wait(lambda driver: words in driver.current_url, PATIENCE, lambda: f"{words!r} is not in the address")

    @contextmanager
    def frame(self, height: int | None = None) -> Iterator[None]:
        """Shows the page in a frame of this height, without one in the page's own, and then in the usual one."""
        resize(self.driver, height or self.driver.execute_script("return document.documentElement.scrollHeight"))
        try:
            yield
        finally:
            resize(self.driver, HEIGHT)

    def picture(self, name: str) -> None:
        """Takes a picture of the page where pictures are asked for, once nothing in it moves."""
        if self.pictures:
            self._wait(lambda driver: driver.execute_script(IS_STILL), PATIENCE, lambda: "something moves on the page")
            self.pictures.mkdir(parents=True, exist_ok=True)
            self.driver.save_screenshot(str(self.pictures / f"{name}.png"))

    def _wait(self, condition: Callable[[WebDriver], Any], seconds: float, failed: Callable[[], str]) -> Any:
        passing = (StaleElementReferenceException, WebDriverException)  # a page that is being rendered again
        try:
            return WebDriverWait(self.driver, seconds, ignored_exceptions=passing).until(condition)
        except TimeoutException:
            raise AssertionError(f"after {seconds:g} s: {failed()}") from None


@contextmanager
def browser(folder: Path) -> Iterator[WebDriver]:
    """A browser with a fresh profile, that asks nobody but this machine for anything."""
    options = webdriver.ChromeOptions()
    options.binary_location = next(executable for name in BROWSERS if (executable := shutil.which(name)))
    for argument in (
        "--headless=new",
        "--no-sandbox",  # it cannot have one where it is root's; all that it opens is ours
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--hide-scrollbars",
        "--lang=en-US",
        f"--window-size={WIDTH},{HEIGHT}",
        f"--user-data-dir={folder}",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    ):
        options.add_argument(argument)
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which(DRIVER), env={"TZ": "UTC"}))
    try:
        resize(driver, HEIGHT)
        yield driver
    finally:
        driver.quit()
