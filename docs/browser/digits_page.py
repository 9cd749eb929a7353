"""Write the page that classifies a drawn digit: `python docs/browser/digits_page.py -o digits.html`."""

import argparse
import tempfile
from pathlib import Path

from sklearn.datasets import load_digits

from softmargin import KernelSVC, write_json_model
from softmargin.core.files import atomic_write

PAGE = Path(__file__).with_name("digits.html")


def page_of(model) -> str:
    """Return the page with a model in it, as `softmargin export --format json` writes it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        write_json_model(model, path)
        text = path.read_text("ascii")
    return PAGE.read_text("utf-8").replace('type="application/json">null<', f'type="application/json">{text}<')


def write_page(path) -> None:
    """Train on the digits of scikit-learn, 8 x 8 pixels, and write the page."""
    X, y = load_digits(return_X_y=True)
    clf = KernelSVC(C=1.0, gamma=1e-3, tol=1e-2, random_state=0).fit(X, y)
    with atomic_write(path) as file:
        file.write(page_of(clf.model()).encode())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("-o", "--output", default="digits.html")
    write_page(parser.parse_args().output)
