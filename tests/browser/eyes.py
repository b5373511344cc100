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

    def find(self, path: str, seconds: float = PATIENCE) -> WebElement:
        """The first visible element of an XPath."""

        def visible(driver: WebDriver) -> WebElement | None:
            return next(
                (candidate for candidate in driver.find_elements(By.XPATH, path) if candidate.is_displayed()), None
            )

        element = self._wait(visible, seconds, lambda: f"{path} is not on the page:\n{self.words()}")
        assert isinstance(element, WebElement)
        return element

    def click(self, path: str) -> None:
        """Clicks on the first visible element of an XPath, as soon as nothing covers it."""

        def clicked(_: WebDriver) -> bool:
            self.find(path).click()
            return True

        self._wait(clicked, PATIENCE, lambda: f"{path} cannot be clicked on")

    def press(self, label: str) -> None:
        """Clicks on a button by what it says."""
        self.click(f"//button[normalize-space()={label!r} and not(@disabled)]")

    def write(self, text: str) -> None:
        """Gives the page's editor another text."""
        editor = self.find("//*[contains(@class, 'CodeMirror')]")
        self.driver.execute_script("arguments[0].CodeMirror.setValue(arguments[1])", editor, text)

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
        passing = (StaleElementReferenceException, WebDriverException)  # a page that is being drawn anew
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
