"""What people look at: plots of a fitted estimator, and its certificate in a notebook."""

import html
import math
from typing import Any

from sklearn.utils.validation import check_is_fitted

from softmargin.core.certificate import Certificate

__all__ = ["ClassifierLooks", "Looks", "certificate_html"]


class Looks:
    """Looks of every estimator that is trained to a certificate."""

    trace_: Any
    tol: float

    def plot_gap(self, ax: Any = None, *, by: str = "seconds", name: str | None = None, **line: Any) -> Any:
        """Plot the proven gap of the fit, certificate by certificate; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib axes, optional
        by : {"seconds", "iteration"}, default="seconds"
        name : str, optional
            What the legend says; by default the class.
        **line
            For matplotlib's ``plot``.

        Returns
        -------
        GapDisplay
        """
        check_is_fitted(self)
        from softmargin.plots import GapDisplay

        return GapDisplay.from_estimator(self, name=name).plot(ax, by=by, **line)

    # scikit-learn shows its diagram of the parameters through these two; a fitted estimator adds what is proven of it.

    def _repr_html_inner(self) -> str:
        return self._with_certificate(super()._repr_html_inner())  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        output: dict[str, Any] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in output:
            output["text/html"] = self._with_certificate(output["text/html"])
        return output

    def _with_certificate(self, diagram: str) -> str:
        certificate = getattr(self, "certificate_", None)
        if certificate is None:
            return diagram
        return certificate_html(certificate, str(self.status_), self.tol) + diagram  # type: ignore[attr-defined]


class ClassifierLooks(Looks):
    """Looks of classifiers."""

    classes_: Any

    def plot_margins(self, X: Any, y: Any, ax: Any = None, *, name: str | None = None, **patches: Any) -> Any:
        """Plot a histogram of the margins of labelled rows; needs matplotlib.

        Parameters
        ----------
        X, y : rows and their labels
        ax : matplotlib axes, optional
        name : str, optional
            What the legend says; by default the class.
        **patches
            For matplotlib's ``hist``.

        Returns
        -------
        MarginDisplay
        """
        from softmargin.plots import MarginDisplay

        scores: Any = self.decision_function(X)  # type: ignore[attr-defined]
        display = MarginDisplay.from_predictions(self.classes_, y, scores, name=type(self).__name__)
        return display.plot(ax, name=name, **patches)

    def plot_confusion(self, X: Any, y: Any, ax: Any = None, **how: Any) -> Any:
        """Plot how often every class is taken for every other: scikit-learn's ConfusionMatrixDisplay.

        Parameters
        ----------
        X, y : rows and their labels
        ax : matplotlib axes, optional
        **how
            For ``ConfusionMatrixDisplay.from_estimator``, such as ``normalize="true"``.
        """
        from sklearn.metrics import ConfusionMatrixDisplay

        return ConfusionMatrixDisplay.from_estimator(self, X, y, ax=ax, **how)


def certificate_html(certificate: Certificate, status: str, tol: float) -> str:
    """Return one paragraph that says what is proven."""
    if certificate.kind == "stationarity":
        proven = f"stationary up to {certificate.residual:.2e}; nothing is proven of the optimum"
    elif not math.isfinite(certificate.bound):
        proven = "nothing is proven"
    else:
        proven = f"objective {certificate.primal:.6g}, proven to be within {certificate.residual:.2e} of the optimum"
    sign = "&le;" if certificate.meets(tol) else "&gt;"
    return f"<p><b>{html.escape(status)}</b>: {proven} (relative, {sign} tol {tol:g}).</p>"
