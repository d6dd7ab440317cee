"""Every table and figure of the five papers: what became of it here, and the command that shows it.

Verdicts:

    reproduced    the same figures, or the same finding where only a picture is printed
    differs       computed here too, and not the same; `by` says by what
    trained       on other data or for fewer epochs than there: figures in docs/measured.md
    open          can be trained here with the command, and was not yet
    needs         data that cannot be had here (ImageNet, CIFAR-100, EMNIST, Tiny ImageNet), or hardware
    drawn         a picture without numbers; the command draws ours
    scheme        an explanation, which is the definition here

`intnet papers` prints them sorted by paper and place.
"""

from typing import Literal, NamedTuple

Verdict = Literal["reproduced", "differs", "trained", "open", "needs", "drawn", "scheme"]


class Place(NamedTuple):
    """A table, figure or section: what it shows, what became of it, by what it differs or what it needs.

    command: an `intnet` command that shows ours, or a page of docs/. With RUN or FILE in it, it takes one of
             yours; else it runs as it stands, for as many epochs as the paper's or, where it says none, 60
    """

    where: str
    shows: str
    verdict: Verdict
    by: str
    command: str


TRAIN = "docs/measured.md"
CURVES = "intnet costs RUN --plot FILE"
WIDTHS, DATA_RATIO = "intnet papers wageubn-widths", "intnet papers wageubn-data-ratio"
ADAPT_COSTS, DYNASTY_COSTS = "intnet papers adapt-costs", "intnet papers dynasty-costs"
SAVED_COSTS = "intnet papers saved-costs"
CIFAR10 = "--data cifar10 --augment crop=4,flip"
ADAPT_ROWS = f"{CIFAR10} --batch-size 512 --epochs 100"
ACCURACY = (
    f"intnet compare --methods float32,adapt --model resnet20 {ADAPT_ROWS} --with 'float32 lr=0.1 rop=10' "
    "--with 'adapt rop=10' --out runs/accuracy"
)
ALEXNET = (
    f"intnet compare --methods float32,adapt --model alexnet {ADAPT_ROWS} --set init=tnvs --set init_scale=2 "
    "--set rop=10 --with 'float32 lr=0.02' --with 'adapt lr=0.05 l2=1e-4' --out runs/alexnet"
)
MUPPET = (
    f"intnet compare --methods float32,muppet --model resnet20 {CIFAR10} --batch-size 128 --epochs 114 "
    "--with 'float32 lr=0.1,0.01@50,0.001@100 weight_decay=1e-4' --with 'muppet lr=0.1' --out runs/muppet"
)
SPARSITY = (  # penalties of the authors' configurations
    f"intnet train --method adapt --model alexnet {ADAPT_ROWS} --set l1=1e-4 --set l2=1e-8 --set lr=0.05 "
    "--set rop=10 --set init_scale=2 --out runs/sparsity"
)
INITIALIZERS = (
    "intnet sweep --method adapt --model lenet5 --data mnist --batch-size 256 --epochs 15 "
    "--vary init=tnvs,normal,uniform --out runs/initializers"
)
BASELINES = (
    "intnet compare --methods float32,banner,dynasty --model resnet18 --data cifar10 --augment crop=4,flip "
    "--batch-size 128 --epochs 200 --with 'float32 lr=0.1,0.02@60,0.004@120,0.0008@160 warmup=1' "
    "--with 'banner lr=0.1,0.02@60,0.004@120,0.0008@160 warmup=1' "
    + " ".join(
        f"--with 'dynasty lr=0.1,0.02@60,0.004@120,0.0008@160 warmup=1 bits={bits}'" for bits in (6, 4, 3, 2)
    )
    + " --out runs/baselines"
)
SMOOTHING = (
    "intnet sweep --method dynasty --model resnet20 --data cifar10 --augment crop=4,flip --batch-size 128 "
    "--epochs 60 --set lr=0.1,0.02@30,0.004@45 --set bits=4 --vary gamma=0,0.5 --seeds 1,2,3 "
    "--out runs/smoothing"
)
# of the thesis's studies; of the levers of CIFAR-10 it prints the label smoothing alone, of epochs those of
# chapter 6, 50
EFFICIENT = (
    "intnet sweep --method saved --model efficientnetv2 --batch-size 128 --set optimizer=adamw "
    "--set lr=0.001 --baseline float32"
)
STUDY = f"{EFFICIENT} --data cifar10 --epochs 60"
LEVERS = (
    f"{STUDY} --set warmup=5 --set codec=symmetric --set bits=7 --also weight_decay=0.05 "
    "--also cosine=55 --also clip=1 --also label_smoothing=0.05 "
    "--also 'weight_decay=0.05 cosine=55 clip=1 label_smoothing=0.05' --out runs/levers"
)
RECIPE = (
    f"{EFFICIENT} --data cifar100 --epochs 50 --set weight_decay=0.05 "
    "--set warmup=5 --set cosine=45 --set clip=1 --set label_smoothing=0.05 --vary bits=8,7,6,5,4,3,2,1 "
    "--vary codec=symmetric,levels --out runs/recipe"
)
DEPTHS = (1, 2, 2, 3, 3, 4)  # of the six stages: blocks b0 to b14
LAYERS = (
    f"{STUDY} --set codec=symmetric --set bits=off "
    + " ".join(
        f"--also 'bits@features.{stage}.{block}.*=4'"
        for stage, depth in enumerate(DEPTHS, 1)
        for block in range(depth)
    )
    + " --out runs/layers"
)
BUCKETS = f"{STUDY} --set codec=levels --vary bits=2,4 --vary bucket=64,128,256,512 --out runs/buckets"
MIXES = (
    f"{STUDY} --set codec=levels --set bits=2/4 --vary mix_prob=0.2,0.5,0.8 --also bits=2,4 --out runs/mixes"
)
WAGEUBN = (
    Place("sections I, IV-B", "memory: 4x less", "differs", "parameters 3.9, tape 2.0 times less", TRAIN),
    Place("sections I, IV-F", "3x faster, ..", "needs", "an FPGA's synthesis", "-"),
    Place("figures 1, 2, 5", "data flow of a layer", "scheme", "", "docs/methods/wageubn.md"),
    Place("figure 3", "CQ in training", "scheme", "", "intnet.spec.formats.Constant"),
    Place("figure 4", "9-bit words of Flag-Q", "scheme", "", "intnet golden unit quantize_flag"),
    Place("figure 6", "training curves", "trained", "ResNet-20, CIFAR-10", TRAIN),
    Place("table I", "accuracy", "trained", "ResNet-20, CIFAR-10, 30 epochs", TRAIN),
    Place("section IV-B", "16-bit E2: 3.46 % lost", "reproduced", "mean of its table I", "-"),
    Place("section IV-A", "widths, constraints", "reproduced", "nominal widths grow", WIDTHS),
    Place("figure 7", "data before, after", "drawn", "", "intnet inspect RUN --plot FILE"),
    Place("figure 8", "batch size", "differs", "least distance at 16", "intnet papers wageubn-batch-size"),
    Place("table II", "single paths", "differs", "order of paths", "intnet papers wageubn-single-path"),
    Place("figures 9, 10", "data ratio of e3", "reproduced", "no numbers there", DATA_RATIO),
    Place("figure 11", "time, power, area", "needs", "an FPGA's synthesis", "-"),
)
ADAPT = (
    Place("abstract", "averages", "reproduced", "of its tables", ADAPT_COSTS),
    Place("figure 1", "number formats", "scheme", "", "docs/numbers.md"),
    Place("figure 2", "initializers", "open", "Adam, fixed widths, Glorot there", INITIALIZERS),
    Place("table 1", "accuracy", "needs", "CIFAR-100", "-"),
    Place("table 2", "accuracy of ResNet-20", "open", "30 epochs: measured.md", ACCURACY),
    Place("table 2", "accuracy of AlexNet", "open", "10 epochs: measured.md", ALEXNET),
    Place("table 2", "accuracy of MuPPET", "open", "its policy: measured.md", MUPPET),
    Place("figures 3, 4", "word lengths over time", "drawn", "on CIFAR-100", CURVES),
    Place("figures 5, 6", "sparsity over time", "drawn", "on CIFAR-100", CURVES),
    Place("tables 3, 4", "MEM, SU in training", "differs", "widths not printed", ADAPT_COSTS),
    Place("table 3, MuPPET", "SU, MEM", "differs", "by 0.02 at most", "intnet papers muppet-costs"),
    Place("figures 7, 8", "memory, cost over time", "drawn", "", CURVES),
    Place("table 5", "sparsity", "open", "of AlexNet", SPARSITY),
    Place("table 6", "SZ, SU of inference", "differs", "widths not printed", ADAPT_COSTS),
)
ADAPT_AGAIN = (
    Place("abstract", "averages", "differs", "two rows: first version's", ADAPT_COSTS),
    Place("figures 1, 2", "formats, its place in SGD", "scheme", "", "docs/methods/adapt.md"),
    Place("figure 3", "sparsity by rounding", "scheme", "", "docs/methods/adapt.md"),
    Place("table 1", "ResNet-20, CIFAR-10", "open", "30 epochs: measured.md", ACCURACY),
    Place("table 1", "AlexNet, CIFAR-10", "open", "10 epochs: measured.md", ALEXNET),
    Place("table 1", "LeNet-5, MNIST", "trained", "as long as there", TRAIN),
    Place("table 1", "the other rows", "needs", "CIFAR-100, EMNIST", "-"),
    Place("table 2", "MEM of CIFAR", "differs", "one row of six", ADAPT_COSTS),
    Place("table 2", "MEM of EMNIST, MNIST", "differs", "widths not printed", ADAPT_COSTS),
    Place("table 2", "SU^1, SU^2", "differs", "widths not printed", ADAPT_COSTS),
    Place("table 2", "SU^3 of CIFAR", "differs", "three fit SU^1, of 1.13", ADAPT_COSTS),
    Place("table 3", "sparsity", "open", "of AlexNet", SPARSITY),
    Place("table 4", "SZ, SU of inference", "differs", "widths not printed", ADAPT_COSTS),
    Place("figures 4, 5", "word lengths over time", "drawn", "on CIFAR-100", CURVES),
    Place("figure 6", "cost over time", "drawn", "on both CIFAR sets", CURVES),
)
DYNASTY = (
    Place("abstract", "5.1x, 4.7x", "reproduced", "of its own times", DYNASTY_COSTS),
    Place("figures 1, 2, 6", "blocks, system, module", "scheme", "", "docs/methods/dynasty.md"),
    Place("figure 3", "sensitivity by layer", "drawn", "", CURVES),
    Place("figure 4", "fluctuation, smoothing", "drawn", "", CURVES),
    Place("section 3.2.2", "fluctuation: 0.4 to 1 %", "open", "", SMOOTHING),
    Place("figure 5", "mean width, lambda tuned", "drawn", "", CURVES),
    Place("table 1", "accuracy", "needs", "CIFAR-100, ImageNet; ours: measured.md", BASELINES),
    Place("figure 7", "accuracy over time", "drawn", "on CIFAR-100", "intnet costs RUN RUN .. --plot FILE"),
    Place("table 2", "area, power", "needs", "synthesis; taken as given", DYNASTY_COSTS),
    Place("sections 5.2, 5.3", "times, energy", "reproduced", "with 7/9 of the epochs", DYNASTY_COSTS),
    Place("figure 8", "energy", "reproduced", "within 0.4 points", DYNASTY_COSTS),
    Place("figure 8", "energy by part", "drawn", "", "intnet costs RUN RUN .. --plot FILE"),
)
SAVED = (
    Place("figure 2.1", "4-bit sin(x)", "scheme", "", "docs/methods/saved.md"),
    Place("figures 4.1, 5.1", "1 to 32 bits", "trained", "ResNet-20, CIFAR-10", TRAIN),
    Place("figures 4.2, 4.3", "7 bits with levers", "open", "", LEVERS),
    Place("figure 4.4", "4 bits in one block", "open", "", LAYERS),
    Place("tables 4.1, 4.2", "memory by block", "reproduced", "of given counts", SAVED_COSTS),
    Place("figure 5.2", "2 bits, two roundings", "trained", "ResNet-20", TRAIN),
    Place("figures 5.3, 5.4", "bucket sizes", "open", "ResNet-20: measured.md", BUCKETS),
    Place("figure 5.5", "2/4 bits mixed", "open", "ResNet-20: measured.md", MIXES),
    Place("figures 6.1 to 6.3", "CIFAR-100", "needs", "CIFAR-100", RECIPE),
    Place("figures 6.4, 6.5", "Tiny ImageNet", "needs", "Tiny ImageNet", "intnet train --data tiny-imagenet"),
    Place("table 7.1", "memory", "reproduced", "", SAVED_COSTS),
)
PAPERS: dict[str, tuple[Place, ...]] = {
    "WAGEUBN (Yang et al. 2020)": WAGEUBN,
    "AdaPT, first version (Kummer et al.)": ADAPT,
    "AdaPT, peer-reviewed (Kummer et al. 2023)": ADAPT_AGAIN,
    "DYNASTY": DYNASTY,
    "Quantization of saved activations (Li 2025)": SAVED,
}
