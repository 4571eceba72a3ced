"""The Opacus adapter on Opacus' own engine, optimizers, loaders and accountants."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest
import torch
from opacus import PrivacyEngine
from opacus.data_loader import DPDataLoader
from opacus.utils.adaptive_clipping.adaptive_clipping_utils import PrivacyEngineAdaptiveClipping
from opacus.utils.batch_memory_manager import BatchMemoryManager
from opacus.utils.uniform_sampler import UniformWithReplacementSampler
from torch import nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from audit import bounds, exact
from audit.adapters import opacus
from audit.claims.evidence import Verdict
from audit.claims.judge import check
from audit.mechanism import Batching, Composition, NoisySGD, Relation
from tests.adapters.recorded import make

pytestmark = pytest.mark.filterwarnings("ignore")  # Opacus warns of its random numbers

RECORDS, BATCH = 120, 12


def dataset(records: int = RECORDS) -> TensorDataset:
    return TensorDataset(torch.zeros(records, 3), torch.zeros(records, dtype=torch.long))


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(())


def private(
    loader: DataLoader[Any] | None = None, accountant: str = "rdp", **options: Any
) -> tuple[PrivacyEngine, nn.Module, Any, DataLoader[Any]]:
    """Return what an engine makes of a small model."""
    model = nn.Linear(3, 2)
    engine = PrivacyEngine(accountant=accountant)
    made = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=loader or DataLoader(dataset(), batch_size=BATCH, shuffle=True),
        **{"noise_multiplier": 1.0, "max_grad_norm": 0.5, **options},
    )
    return engine, made[0], made[1], made[-1]  # ghost clipping has a loss of its own between


def train(model: nn.Module, optimizer: Any, loader: Any, epochs: int = 1) -> None:
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()


def test_a_trained_engine_is_what_its_accountant_assumes():
    engine, model, optimizer, loader = private()
    train(model, optimizer, loader, epochs=3)
    told = opacus.from_private(optimizer, loader, relation=Relation.ADD_REMOVE, history=engine)
    assert told.history == ((1.0, 0.1, 30),)
    assert told.as_claimed
    assert isinstance(told.actual, NoisySGD)
    assert told.actual.batching is Batching.POISSON
    assert told.actual.sampling_rate == 0.1
    assert told.actual.noise_multiplier == pytest.approx(1.0, rel=1e-15)
    assert (told.divisor, told.clipping, told.clip_norm) == (12, opacus.Clipping.FLAT, 0.5)
    assert "drawn: poisson batches at rate 0.1" in str(told)
    planned = opacus.from_private(optimizer, loader, relation=Relation.ADD_REMOVE, epochs=3)
    assert planned == told


def test_what_the_engine_says_is_what_the_adapter_asks_for():
    for accountant in ("rdp", "prv", "gdp"):
        engine, model, optimizer, loader = private(accountant=accountant)
        train(model, optimizer, loader)
        said = opacus.claimed_epsilons(engine, accountant=accountant, deltas=[1e-5])
        assert said == (engine.get_epsilon(1e-5),)


def test_a_loader_that_shuffles_says_so_and_has_both_numbers():
    loader = DataLoader(dataset(1200), batch_size=BATCH, shuffle=True)
    engine, model, optimizer, loader = private(loader, poisson_sampling=False, noise_multiplier=0.5)
    train(model, optimizer, loader)
    told = opacus.from_private(optimizer, loader, relation=Relation.ZERO_OUT, history=engine)
    assert not told.as_claimed
    assert told.loader.sampler == "RandomSampler"
    assert "drawn: reshuffled batches of 12 from 1200 records" in str(told)
    assert "NOT what is assumed" in str(told)
    (said,) = opacus.claimed_epsilons(engine, accountant="prv", deltas=[1e-6])
    assert isinstance(told.actual, NoisySGD)
    assert isinstance(told.claimed, NoisySGD)
    gap = bounds.batching_gap(told.actual, assumed=told.claimed, delta=1e-6)
    assert gap.claimed <= said <= gap.claimed + 0.03  # its eps_error, twice
    assert gap.refuted
    assert gap.certified > said


def test_a_smaller_last_batch():
    loader = DataLoader(dataset(125), batch_size=BATCH, shuffle=True)
    _, _, optimizer, loader = private(loader, poisson_sampling=False)
    told = opacus.from_private(optimizer, loader, relation=Relation.ZERO_OUT, epochs=2)
    assert isinstance(told.actual, NoisySGD)
    assert (told.loader.records, told.actual.dataset_size) == (125, 132)
    assert told.actual.steps_per_epoch == told.loader.batches == 11
    assert told.claimed.dataset_size == 125
    with pytest.raises(ValueError, match=r"drop_last=True, which leaves out 5$"):
        opacus.read_loader(DataLoader(dataset(125), batch_size=BATCH, drop_last=True))
    dropped = DataLoader(dataset(125), batch_size=BATCH, drop_last=True, shuffle=True)
    read = opacus.read_loader(dropped)
    assert (read.batching, read.records, read.batches) == (Batching.DROP_LAST, 125, 10)
    run = read.mechanism([(1.0, 0.1, 20)], relation=Relation.ZERO_OUT, clip_norm=1.0)
    assert (run.dataset_size, run.batch_size, run.steps, run.steps_per_epoch) == (125, 12, 20, 10)


TEN_OF_ALL = RandomSampler(dataset(), num_samples=10)
LOADERS = [
    ({"batch_size": 12, "shuffle": True}, Batching.RESHUFFLED, 120, 12),
    ({"batch_size": 12}, Batching.CYCLIC, 120, 12),
    ({"batch_size": 120}, Batching.FULL, 120, 120),
    ({"batch_size": 500, "shuffle": True}, Batching.FULL, 120, 120),
    ({"batch_size": 12, "sampler": SubsetRandomSampler(range(60))}, Batching.RESHUFFLED, 60, 12),
    ({"batch_size": 12, "sampler": TEN_OF_ALL}, Batching.WITHOUT_REPLACEMENT, 120, 10),
]


@pytest.mark.parametrize(("options", "batching", "records", "size"), LOADERS)
def test_the_sampler_is_read(options: dict[str, Any], batching: Batching, records: int, size: int):
    found = opacus.read_loader(DataLoader(dataset(), **options))
    assert (found.batching, found.records, found.batch_size) == (batching, records, size)


def test_poisson_batches_are_read_through_batches_of_limited_size():
    _, _, optimizer, loader = private()
    limited = BatchMemoryManager(data_loader=loader, max_physical_batch_size=4, optimizer=optimizer)
    with limited as physical:
        assert opacus.read_loader(physical) == opacus.read_loader(loader)


def test_a_random_record_in_place_of_none_is_refused():
    _, _, optimizer, loader = private(rand_on_empty=True)
    # it is one more record in a batch, and the batch with a record alone does not have it
    filled = loader.collate_fn
    filled([(torch.zeros(3), torch.tensor(0))])
    assert len(filled([])[0]) == 1
    with pytest.raises(ValueError, match="leave empty batches empty, got rand_on_empty=True"):
        opacus.from_private(optimizer, loader, relation=Relation.ADD_REMOVE, epochs=1)


def test_a_sampler_of_another_rate_than_the_accountant_is_told():
    sampler = UniformWithReplacementSampler(num_samples=120, sample_rate=0.1, steps=100)
    _, _, optimizer, loader = private(
        DataLoader(dataset(), batch_sampler=sampler), poisson_sampling=False
    )
    told = opacus.from_private(optimizer, loader, relation=Relation.ADD_REMOVE, epochs=1)
    assert told.history == ((1.0, 0.01, 100),)
    assert not told.as_claimed
    assert isinstance(told.actual, NoisySGD)
    assert isinstance(told.claimed, NoisySGD)
    assert (told.actual.sampling_rate, told.claimed.sampling_rate) == (0.1, 0.01)
    assert bounds.batching_gap(told.actual, assumed=told.claimed, delta=1e-5).refuted


def test_the_samplers_of_opacus_have_fewer_batches_where_the_rate_rounds_up():
    found = opacus.read_loader(DPDataLoader(dataset(93), sample_rate=1 / 93))
    assert (found.batches, found.rate) == (92, 1 / 93)  # int(1 / (1/93))


def test_what_is_not_modelled_is_refused_by_name():
    data = dataset()

    def refused(message: str, **options: Any) -> None:
        with pytest.raises(ValueError, match=message):
            opacus.read_loader(DataLoader(data, **options))

    replacing = RandomSampler(data, replacement=True)
    refused("without replacement, got a RandomSampler with it", sampler=replacing, batch_size=4)
    some = RandomSampler(data, num_samples=50)
    refused("all 120 records, or one batch of them, got 50$", sampler=some, batch_size=4)
    weighted = WeightedRandomSampler([1.0] * 120, 120)
    refused("got WeightedRandomSampler of torch$", sampler=weighted, batch_size=4)
    refused("UniformWithReplacementSampler, got None$", batch_size=None)
    repeated = SubsetRandomSampler([1, 1, 2])
    refused("indices must differ, got one that is repeated$", sampler=repeated, batch_size=1)
    with pytest.raises(ValueError, match=r"got _InfiniteConstantSampler of torch$"):
        opacus.read_loader(DataLoader(Stream(), batch_size=4))

    class Own(BatchSampler):
        pass

    own = Own(RandomSampler(data), 4, False)
    refused("got Own of tests$|got Own of test_opacus$", batch_sampler=own)
    with pytest.raises(ValueError, match="data_loader must be a DataLoader, got 3"):
        opacus.read_loader(3)
    plain = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    with pytest.raises(ValueError, match=r"must be a DPOptimizer or .*, got SGD of torch$"):
        opacus.from_private(plain, DataLoader(data), relation=Relation.ADD_REMOVE, epochs=1)


def test_distributed_training_is_refused_by_name(tmp_path: Any):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'group'}", rank=0, world_size=1
    )
    try:
        loader = DPDataLoader(dataset(), sample_rate=0.1, distributed=True)
        with pytest.raises(ValueError, match="got DistributedUniformWithReplacementSampler"):
            opacus.read_loader(loader)
        halves = torch.utils.data.distributed.DistributedSampler(dataset())
        with pytest.raises(ValueError, match=r"got DistributedSampler of torch$"):
            opacus.read_loader(DataLoader(dataset(), sampler=halves, batch_size=4))
        from opacus.optimizers import DistributedDPOptimizer

        optimizer = DistributedDPOptimizer(
            torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1),
            noise_multiplier=1.0,
            max_grad_norm=1.0,
            expected_batch_size=4,
        )
        with pytest.raises(ValueError, match=r"got DistributedDPOptimizer of opacus$"):
            opacus.from_private(optimizer, loader, relation=Relation.ADD_REMOVE, epochs=1)
    finally:
        torch.distributed.destroy_process_group()


def test_clipping():
    _, _, optimizer, loader = private(clipping="per_layer", max_grad_norm=[3.0, 4.0])
    told = opacus.from_private(optimizer, loader, relation=Relation.ADD_REMOVE, epochs=1)
    assert (told.clipping, told.clip_norm) == (opacus.Clipping.PER_LAYER, 5.0)
    assert told.as_claimed
    _, _, optimizer, loader = private(
        grad_sample_mode="ghost",
        criterion=nn.CrossEntropyLoss(reduction="sum"),
        loss_reduction="sum",
    )
    told = opacus.from_private(optimizer, loader, relation=Relation.ADD_REMOVE, epochs=1)
    assert (told.clipping, told.divisor) == (opacus.Clipping.FLAT, None)
    assert told.as_claimed
    _, _, optimizer, loader = private(
        clipping="adaptive",
        target_unclipped_quantile=0.5,
        clipbound_learning_rate=0.2,
        max_clipbound=10.0,
        min_clipbound=0.1,
        unclipped_num_std=1.0,
    )
    with pytest.raises(ValueError, match=r"got AdaClipDPOptimizer of opacus$"):
        opacus.from_private(optimizer, loader, relation=Relation.ADD_REMOVE, epochs=1)
    model = nn.Linear(3, 2)
    model, optimizer, loss, loader = PrivacyEngineAdaptiveClipping().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(dataset(), batch_size=BATCH * 5),
        criterion=nn.CrossEntropyLoss(),
        noise_multiplier=1.0,
        max_grad_norm=0.5,
        grad_sample_mode="ghost",
    )
    loss(model(torch.zeros(30, 3)), torch.zeros(30, dtype=torch.long)).backward()
    with pytest.raises(ValueError, match="optimizer must clip to a fixed norm"):
        opacus.from_private(optimizer, loader, relation=Relation.ADD_REMOVE, epochs=1)


def test_the_noise_is_scaled_to_the_norm_of_the_vector_of_norms():
    _, model, optimizer, _ = private(
        clipping="per_layer", max_grad_norm=[3.0, 4.0], noise_multiplier=1e6, loss_reduction="sum"
    )
    torch.manual_seed(1)
    drawn = []
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(torch.zeros(2, 3)), torch.zeros(2).long()).backward()
        optimizer.pre_step()
        drawn += [p.grad.flatten().clone() for p in optimizer.params]
    std = torch.cat(drawn).std().item()
    # 480 draws: five standard errors are 16 %
    assert std == pytest.approx(5e6, rel=0.16)


def test_the_divisor_is_the_expected_size_of_a_batch():
    _, model, optimizer, _ = private(noise_multiplier=1e-9, max_grad_norm=1e6)
    for size in (3, 30):
        optimizer.zero_grad()
        x = torch.ones(size, 3)
        nn.functional.cross_entropy(model(x), torch.zeros(size).long(), reduction="mean").backward()
        weights = optimizer.params[0]
        summed = weights.grad_sample.sum(dim=0)
        optimizer.pre_step()
        assert summed.abs().min() > 0.1
        # noise of 1e-9 times 1e6, over the divisor
        torch.testing.assert_close(weights.grad, summed / BATCH, rtol=0, atol=1e-3)


def test_the_divisor_of_a_dataset_with_a_record_less():
    for records, batch_size, differs in ((120, 12, True), (125, 12, False), (1200, 100, True)):
        found = []
        for n in (records, records - 1):
            loader = DataLoader(dataset(n), batch_size=batch_size, shuffle=True)
            _, _, optimizer, used = private(loader)
            asked = {"relation": Relation.ADD_REMOVE, "epochs": 1}
            found.append(opacus.from_private(optimizer, used, **asked))
        one, less = found
        assert one.divisor_without_record == less.divisor
        assert (one.divisor != less.divisor) is differs
        assert ("n must be public" in str(one)) is differs
    half = DataLoader(dataset(125), batch_size=BATCH, sampler=SubsetRandomSampler(range(60)))
    _, _, optimizer, used = private(half, poisson_sampling=False)
    told = opacus.from_private(optimizer, used, relation=Relation.ZERO_OUT, epochs=1)
    assert (told.loader.records, told.divisor, told.divisor_without_record) == (60, 25, 24)
    _, _, optimizer, used = private(loss_reduction="sum")
    told = opacus.from_private(optimizer, used, relation=Relation.ADD_REMOVE, epochs=1)
    assert told.divisor_without_record is None
    assert "n must be public" not in str(told)


def test_gradients_that_are_accumulated_are_refused():
    loader = DataLoader(dataset(), batch_size=BATCH, shuffle=True)
    engine, model, optimizer, loader = private(loader, poisson_sampling=False)
    for place, (x, y) in enumerate(loader):
        nn.functional.cross_entropy(model(x), y).backward()
        if place % 2:
            optimizer.step()
            optimizer.zero_grad()
    assert engine.accountant.history == [(1.0, 0.2, 5)]
    with pytest.raises(ValueError, match=r"history\[0\] sample rate must be 1 / len\(data"):
        opacus.from_private(optimizer, loader, relation=Relation.ZERO_OUT, history=engine)


def test_noise_that_no_entry_of_the_history_has_is_named():
    _, _, optimizer, loader = private()
    optimizer.noise_multiplier = 0.1
    history = [(1.0, 0.1, 30)]
    told = opacus.from_private(optimizer, loader, relation=Relation.ADD_REMOVE, history=history)
    words = "noise: multiplier 1 at the end of the history, but the optimizer's is 0.1 now"
    assert words in str(told)


def test_a_schedule_of_the_noise():
    loader = DataLoader(dataset(), batch_size=BATCH, shuffle=True)
    for poisson in (True, False):
        engine, model, optimizer, used = private(loader, poisson_sampling=poisson)
        train(model, optimizer, used)
        optimizer.noise_multiplier = 2.0
        train(model, optimizer, used)
        told = opacus.from_private(optimizer, used, relation=Relation.ZERO_OUT, history=engine)
        assert isinstance(told.actual, Composition)
        assert [part.noise_multiplier for part in told.actual.parts] == pytest.approx([1.0, 2.0])
        assert told.as_claimed is poisson
        assert opacus.to_history(told.claimed) == told.history
        assert "noise: " not in str(told)
    train(model, optimizer, list(used)[:3])
    optimizer.noise_multiplier = 3.0
    train(model, optimizer, used)
    with pytest.raises(ValueError, match=r"hold whole epochs \(10 steps\) in every entry for res"):
        opacus.from_private(optimizer, used, relation=Relation.ZERO_OUT, history=engine)


def test_accountants_are_upper_bounds_of_the_mechanism_of_their_history():
    history = [(1.3, 1 / 235, 700)]
    m = opacus.from_history(history, dataset_size=60_000, relation=Relation.ADD_REMOVE)
    low, high = exact.dominating_curve(m, accuracy=1e-4).epsilon_bracket(1e-5)
    (rdp,) = opacus.claimed_epsilons(m, accountant="rdp", deltas=[1e-5])
    (prv,) = opacus.claimed_epsilons(history, accountant="prv", deltas=[1e-5])
    assert low <= prv <= high + 0.03  # its eps_error, twice
    assert prv < rdp
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert opacus.claimed_epsilons(m, accountant="gdp", deltas=[1e-5])[0] < low


def test_what_is_recorded_is_what_opacus_says():
    recorded = json.loads(make.OPACUS.read_text(encoding="utf-8"))
    said = json.loads(json.dumps(make.opacus()))
    assert len(said["histories"]) == len(recorded["histories"])
    for now, then in zip(said["histories"], recorded["histories"], strict=True):
        assert now["state_dict"] == then["state_dict"]
        assert sorted(now) == sorted(then)
        for name in sorted(set(now) - {"state_dict"}):
            # sums of floats: the order may change, the numbers may not
            assert now[name] == pytest.approx(then[name], rel=1e-9), name


TRAINED = """\
import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, TensorDataset

from audit.adapters import opacus
from audit.mechanism import Relation

def trained(poisson):
    torch.manual_seed(1)
    model = torch.nn.Linear(3, 2)
    data = TensorDataset(torch.randn(1000, 3), torch.zeros(1000).long())
    engine = PrivacyEngine()
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(data, batch_size=10, shuffle=True),
        noise_multiplier=0.5,
        max_grad_norm=1.0,
        poisson_sampling=poisson,
    )
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    told = opacus.from_private(optimizer, loader, relation=Relation.ZERO_OUT, history=engine)
    return engine, told

def shuffled():
    return trained(False)[1]

def poisson():
    return trained(True)[1]

def accountant():
    return trained(True)[0].accountant
"""


def test_a_claims_file_judges_what_was_trained(tmp_path: Any):
    (tmp_path / "trained.py").write_text(TRAINED, encoding="utf-8")
    file = tmp_path / "trained.claims.yaml"
    claims = [
        f"  - {{id: {name}, mechanism: {{training: 'trained:{name}'}}, "
        "accountant: 'trained:accountant', deltas: [1e-6]}\n"
        for name in ("poisson", "shuffled")
    ]
    file.write_text("claims:\n" + "".join(claims), encoding="utf-8")
    found = check([file], error=1e-6)
    assert found.complaints == ()
    assert [j.verdict for j in found.judgements] == [Verdict.CONSISTENT, Verdict.REFUTED]
