"""Every table and figure of the paper: its runs as flags, and the values it prints.  No torch here.

A row names a run of `fbnn-hw cil` or `fbnn-hw pretrain` by its flags: `{fe}` is the pre-trained checkpoint, `{model}` the
architecture, `{folder}` that of the results, `{seed}` the seed; scenario and seed are added to all.  Values of the paper are fractions;
None where it shows a curve without numbers.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Row:
    """A row of a table.  verb, flags: the run; no verb: a value of another publication, which has no run here."""

    label: str  # as in the paper
    verb: str
    flags: str
    paper: dict = field(default_factory=dict)  # {metric: value}; the keys say which metrics are compared


@dataclass(frozen=True)
class Exhibit:
    """A table or figure.  number, ref: in print, and its label in the paper.  plot: how it is drawn, see `report.cil`.  structure: a model
    to print instead.
    """

    name: str
    number: str
    ref: str
    title: str
    scenario: str = ""
    rows: tuple = ()
    plot: str = ""
    structure: str = ""
    note: str = ""


SIZES = ("3mb", "9mb", "24mb")
SMALLER = ("0.5mb", "1mb")
"""Sizes that the paper does not have, which train in an evening."""
C100, CORE50 = "cifar100-50+5x10", "core50-10x5"
CHOICES = ("strategy", "replay", "buffer_mb", "setting", "loss", "balanced", "aware")
"""The fields of a `CilConfig` that tell the runs of an exhibit apart."""
BUFFERS = {"latent": (0.1, 0.2, 0.5, 1, 2, 5, 10, 25), "native": (1, 2, 5, 10, 25, 50, 100)}


def _values(*names):
    return lambda *values: dict(zip(names, values))


def _baselines():
    row = _values("a_old", "d_old", "a_new", "d_new", "a_final", "d_final", "epochs")
    paper = {"naive": (0.0, 0, 0.898, 0.06, 0.179, 0.36, 236), "naive-reset": (0.0, 0, 0.797, 0.07, 0.159, 0.32, 428),
             "cumulative": (0.71, 0.16, 0.671, 0.12, 0.674, 0.15, 318), "cumulative-reset": (0.66, 0.14, 0.629, 0.13, 0.639, 0.14, 545)}
    return tuple(Row(s, "cil", f"--init {{fe}} --replay native --strategy {s} --curves", row(*v)) for s, v in paper.items())


def _balancing(setting, values):
    row, names = _values("a_final", "d_final"), {"SH": "sh", "CCE": "cce", "FCCE": "focal"}
    rows = []
    for kind, buffer in (("latent", 5), ("native", 50)):
        for loss, name in names.items():
            for balanced in (True, False):
                rows.append(Row(f"{kind} {buffer} Mb, {loss}, {'weighted' if balanced else 'not weighted'}", "cil",
                                 f"--init {{fe}} --setting {setting} --replay {kind} --buffer-mb {buffer} --loss {name}"
                                 + (" --balanced" if balanced else ""), row(*values[kind, loss][0 if balanced else 1])))
    return tuple(rows)


RPT = {("latent", "SH"): ((0.280, 0.30), (0.274, 0.29)), ("latent", "CCE"): ((0.455, 0.18), (0.409, 0.22)),
       ("latent", "FCCE"): ((0.447, 0.16), (0.387, 0.21)), ("native", "SH"): ((0.235, 0.28), (0.223, 0.29)),
       ("native", "CCE"): ((0.402, 0.19), (0.381, 0.23)), ("native", "FCCE"): ((0.389, 0.19), (0.375, 0.22))}
FPT = {("latent", "SH"): ((0.256, 0.28), (0.256, 0.29)), ("latent", "CCE"): ((0.516, 0.19), (0.486, 0.22)),
       ("latent", "FCCE"): ((0.487, 0.17), (0.471, 0.19)), ("native", "SH"): ((0.488, 0.28), (0.486, 0.28)),
       ("native", "CCE"): ((0.575, 0.19), (0.565, 0.21)), ("native", "FCCE"): ((0.575, 0.19), (0.545, 0.20))}


def _pretraining():
    """Two rows each: the pre-training, and the retraining that starts from it (its checkpoint is named after the weights)."""
    row, rows = _values("a_final_train", "a_final", "d_final"), []
    first = _values("train_accuracy", "test_accuracy", "test_dispersion")
    for paradigm, beta, gamma, *values in (
            ("supervised", "0", "0", 0.9074, 0.6290, 0.15, 0.5633, 0.5128, 0.17),
            ("regularization", "0", "1e-3", 0.9082, 0.6406, 0.14, 0.5578, 0.5186, 0.18),
            ("regularization", "0", "1e-2", 0.9052, 0.6326, 0.14, 0.5558, 0.5196, 0.19),
            ("regularization", "0", "1e-1", 0.8685, 0.6104, 0.14, 0.5197, 0.4862, 0.19),
            ("SSL", "1e-6", "0", 0.9009, 0.6416, 0.13, 0.5647, 0.5108, 0.18),
            ("SSL", "1e-5", "0", 0.8957, 0.6358, 0.14, 0.5763, 0.5192, 0.18),
            ("SSL", "1e-4", "0", 0.8612, 0.6034, 0.16, 0.5788, 0.5126, 0.18),
            ("SSL", "1e-3", "0", 0.6384, 0.4840, 0.17, 0.5004, 0.4176, 0.19),
            ("regularization + SSL", "5e-6", "5e-3", 0.9024, 0.6354, 0.14, 0.5653, 0.5234, 0.20),
            ("regularization + SSL", "1e-5", "1e-2", 0.9002, 0.6351, 0.14, 0.5743, 0.5245, 0.19)):
        label, checkpoint = f"{paradigm}, beta {beta}, gamma {gamma}", f"{{folder}}/pt-{beta}-{gamma}-s{{seed}}.pt"
        rows.append(Row(f"{label}: pre-training", "pretrain", f"--model {{model}} --beta {beta} --gamma {gamma} --out {checkpoint}",
                         first(*values[:3])))
        rows.append(Row(f"{label}: final", "cil", f"--init {checkpoint} --replay latent --buffer-mb 10 --balanced", row(*values[3:])))
    return tuple(rows)


def _memory():
    """The sizes, and both bounds: nothing kept (naive) and everything kept (cumulative)."""
    names, rows = ("a_seen", "a_new", "a_buffer", "a_buffer_train"), []
    for kind, sizes in BUFFERS.items():
        choices = (("nothing kept", "--strategy naive"), *((f"{mb} Mb", f"--buffer-mb {mb} --balanced") for mb in sizes),
                   ("everything kept", "--strategy cumulative"))
        rows += [Row(f"{kind}, {label}", "cil", f"--init {{fe}} --replay {kind} {flags}", dict.fromkeys(names)) for label, flags in choices]
    return tuple(rows)


def _losses(setting):
    return tuple(Row(f"{kind} {mb} Mb {loss}{' weighted' if balanced else ''}", "cil",
                     f"--init {{fe}} --setting {setting} --replay {kind} --buffer-mb {mb} --loss {loss}{' --balanced' if balanced else ''}",
                     dict.fromkeys(("a_old", "a_new", "a_final")))
                 for kind, sizes in BUFFERS.items() for mb in sizes for loss in ("cce", "focal", "sh") for balanced in (False, True))


def _offline():
    rows = [Row(name, "pretrain", f"--model {name} --all-classes", {"train_accuracy": None, "test_accuracy": None})
             for name in (*SMALLER, *SIZES, *(f"fpnn_{kind}{size}" for kind in "bp" for size in ("-0.5mb", "-1mb", "", "-9mb", "-24mb")))]
    # Ref: arXiv 2104.08215 and 2403.03739, abstracts; the paper's figure has points of both without numbers, at 11.7 and 29.3 Mb.
    published = (("BNN-BN (Chen et al. 2021), ReActNet, float first and last layer", 0.6834),
                 ("BNN-AB (Ma et al. 2024), float first and last layer", 0.6935))
    return (*rows, *(Row(label, "", "", {"test_accuracy": value}) for label, value in published))


def _core50():
    row = "--init {fe} --replay"  # a buffer of 50 or 100 samples a class, in native pictures or as many bits of latents
    ta, tf = 50 * 50 * 13 * 128 ** 2 / 1e6, 50 * 100 * 13 * 128 ** 2 / 1e6
    pretrained = "--model res3mb --beta 1e-5 --gamma 1e-2 --unlabeled --out {folder}/stl10-s{seed}.pt"
    return (Row("pre-training on STL-10", "pretrain", pretrained, {"test_accuracy": None}),
            Row("latent, task-aware", "cil", f"{row} latent --buffer-mb {ta:g} --balanced --aware", {"a_final": 0.5396}),
            Row("latent, task-free", "cil", f"{row} latent --buffer-mb {tf:g} --balanced", {"a_final": 0.1722}),
            Row("native, task-aware", "cil", f"{row} native --buffer-mb {ta:g} --balanced --aware", {"a_final": 0.5907}),
            Row("native, task-free", "cil", f"{row} native --buffer-mb {tf:g} --balanced", {"a_final": 0.4452}))


EXHIBITS = {e.name: e for e in (
    Exhibit("figure-structure", "Figure 1", "baseline:modelstructure", "The layers of 3mb", structure="3mb"),
    Exhibit("table-normalisation", "Table 2", "tab:1-normalisation", "Train accuracy with batch norm and with K = 0.3, 1, 3", C100, (
        Row("BN", "pretrain", "--model {model} --all-classes --norm bn", {"train_accuracy": 0.787}),
        Row("K = 0.3", "pretrain", "--model {model} --all-classes --K 0.3", {"train_accuracy": 0.747}),
        Row("K = 1", "pretrain", "--model {model} --all-classes --K 1", {"train_accuracy": 0.785}),
        Row("K = 3", "pretrain", "--model {model} --all-classes --K 3", {"train_accuracy": 0.755}))),
    Exhibit("encoding", "", "section key_cil", "TRGB against TYCC, offline (said to be equal)", C100, (
        Row("TYCC", "pretrain", "--model {model} --all-classes --encoder tycc", {"test_accuracy": None}),
        Row("TRGB", "pretrain", "--model {model} --all-classes --encoder trgb", {"test_accuracy": None}))),
    Exhibit("figure-offline", "Figure 2", "baseline:evaluation", "Offline accuracy against size, binary and float", C100, _offline(),
            plot="sizes"),
    Exhibit("table-metrics", "Table 1", "tab:metrics", "Notation: a and d of PT, old, new, seen, final, buffer; _train: training set",
            note="Each result holds them: tasks[].test and tasks[].train by subset, and `final` as a_old, d_old_train and so on."),
    Exhibit("figure-baselines", "Figure 3", "fig:baselines_cil", "Accuracy of each task per epoch, four baselines", C100,
            (Row("pre-training", "pretrain", "--model {model} --out {folder}/pt-0-0-s{seed}.pt", {"train_accuracy": None}), *_baselines()),
            plot="curves"),
    Exhibit("table-baselines", "Table 3", "tab:baseline_cil", "The baselines after the last task", C100, _baselines()),
    Exhibit("figure-losses-rpt", "Figure 4", "fig:balancing, a and b", "Loss and buffer size, RPT", C100, _losses("rpt"), plot="losses"),
    Exhibit("figure-losses-fpt", "Figure 4", "fig:balancing, c and d", "Loss and buffer size, FPT", C100, _losses("fpt"), plot="losses"),
    Exhibit("table-rpt", "Table 4", "tab:RPT", "Balancing with the pre-training task retained", C100, _balancing("rpt", RPT)),
    Exhibit("table-fpt", "Table 5", "tab:FPT", "Balancing with the pre-training task forgotten", C100, _balancing("fpt", FPT)),
    Exhibit("figure-pretraining", "Figure 5", "pretraining:loss_schema", "The objective alpha CCE + beta Barlow Twins + gamma L_FR",
            note="CCE and L_FR see each batch mirrored, shifted and with other contrast; Barlow Twins sees two views that are cropped, "
            "mirrored and recoloured, through two dense layers of 2048 with batch norm and ReLU. See fbnn-hw pretrain --help."),
    Exhibit("table-pretraining", "Table 6", "tab:pt_metrics", "Pre-training terms, latent replay of 10 Mb", C100, _pretraining()),
    Exhibit("table-replay", "Table 7", "tab:es", "Native against latent replay, in words",
            note="Counted here: 13,312 bits a native sample against 1,024 a latent (13.0 times); 361,472 of 3mb's 2,966,528 weights "
            "(12.2 %) train with latents; images can be augmented, latents cannot."),
    Exhibit("figure-memory", "Figure 6", "fig:perf_memorySize", "Native and latent replay for equal memory", C100, _memory(),
            plot="memory"),
    Exhibit("figure-res", "Figure 7", "fig:NewArchitecture", "The layers of res3mb", structure="res3mb"),
    Exhibit("table-core50", "Table 8", "tab:CORE50_benchmark", "CORe50, final accuracy", CORE50, _core50(),
            note="Other methods there, task-aware and task-free, %: ER 41.72 +- 1.30, 21.80 +- 0.70; ER-Aug 44.16 +- 2.05, 25.34 +- 0.74; "
            "DER++ 46.62 +- 0.46, 22.84 +- 0.84; DER++-Aug 45.12 +- 0.68, 28.10 +- 0.80; CTN 54.17 +- 0.85; CTN-Aug 53.40 +- 1.37; "
            "DualNet 57.64 +- 1.36, 38.76 +- 1.52. Deviations of the paper's own: latent 1.17, 0.16; native 1.24, 0.54."),
    Exhibit("figure-core50", "Figure 8", "fig:val_IncrementalLearning", "CORe50, task-free, accuracy over the tasks", CORE50,
            _core50()[2::2], plot="tasks"),
)}
