"""The papers' claims that can be checked without long training, one module a check.

`CHECKS` lists them once; `check.py` says what a check is, `training.py` trains for those that need it. The
command is `intnet papers` (`cli/papers.py`); what every check printed stands in docs/papers.md.
"""

from intnet.papers.checks import (
    adapt_costs,
    dynasty_costs,
    muppet_costs,
    saved_costs,
    wageubn_batch_size,
    wageubn_data_ratio,
    wageubn_single_path,
    wageubn_widths,
)
from intnet.papers.checks.check import Check

CHECKS: dict[str, Check] = {
    "wageubn-widths": wageubn_widths.CHECK,
    "wageubn-data-ratio": wageubn_data_ratio.CHECK,
    "wageubn-single-path": wageubn_single_path.CHECK,
    "wageubn-batch-size": wageubn_batch_size.CHECK,
    "adapt-costs": adapt_costs.CHECK,
    "muppet-costs": muppet_costs.CHECK,
    "dynasty-costs": dynasty_costs.CHECK,
    "saved-costs": saved_costs.CHECK,
}
