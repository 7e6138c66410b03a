"""Each method's function, compared with values derived by hand."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from task.methods.base import Contribution, LocalRound
from task.methods.fedalign import lipschitz, lipschitz_gap, spectral_norm, transmitting_matrix
from task.methods.feddyn import add_dynamic_gradient
from task.methods.fedexp import NORM, ExtrapolatedStep
from task.methods.fedprox import add_proximal_gradient
from task.methods.fedrcl import FedRCL, contrast, penalty, similarities
from task.methods.feduv import classifier_deviation, positive_median, uniformity
from task.methods.fedvls import SUPPRESSIONS
from task.methods.freeze import orthogonal_classifier
from task.methods.gradaug import distillation, rescale
from task.methods.mixup import beta_share, mix
from task.methods.moon import Moon, model_contrastive
from task.methods.scaffold import correct_gradients
from task.methods.stochdepth import StochDepth, keep_rates
from task.models.cnn import Cnn
from task.models.layers.blocks import Bottle, stage
from task.models.resnet56 import ResNet56Settings
from task.seeding import torch_generator
from task.training.losses import divergence


def parameter(values: list[float], gradient: list[float] | None = None) -> nn.Parameter:
    made = nn.Parameter(torch.tensor(values))
    made.grad = torch.tensor(gradient or [0.0] * len(values))
    return made


def gradient(of: Tensor) -> Tensor:
    assert of.grad is not None
    return of.grad


class TestFedProx:
    def test_the_gradient_by_hand(self) -> None:
        """w = (3, -1), anchor (1, 1), mu = 0.5: 0.5 * (2, -2) is added to the gradient (10, 20)."""
        w = parameter([3.0, -1.0], [10.0, 20.0])
        add_proximal_gradient([w], [torch.tensor([1.0, 1.0])], 0.5)
        assert gradient(w).tolist() == [11.0, 19.0]

    def test_steps_with_momentum_are_those_of_the_written_out_objective(self) -> None:
        """The term is squared, and enters the momentum buffer only once."""
        anchor = torch.tensor([1.0, 1.0])
        by_hook, by_autograd = parameter([3.0, -1.0]), parameter([3.0, -1.0])
        steppers = [torch.optim.SGD([w], lr=0.1, momentum=0.9) for w in (by_hook, by_autograd)]
        for _ in range(5):
            for stepper in steppers:
                stepper.zero_grad()
            by_hook.square().sum().backward()
            add_proximal_gradient([by_hook], [anchor], 0.5)
            objective = by_autograd.square().sum() + 0.25 * (by_autograd - anchor).square().sum()
            objective.backward()
            for stepper in steppers:
                stepper.step()
        assert torch.allclose(by_hook, by_autograd, rtol=1e-6)

    def test_a_parameter_without_gradient_is_still_pulled(self) -> None:
        w = nn.Parameter(torch.tensor([3.0]))
        add_proximal_gradient([w], [torch.tensor([1.0])], 0.5)
        assert gradient(w).tolist() == [1.0]


class TestMoon:
    def test_the_term_by_hand(self) -> None:
        """Cosine 1 to the global, 0 to the previous model, t = 0.5: log(1 + e^((0 - 1) / 0.5))."""
        z, toward, away = (torch.tensor([[*v]]) for v in ((2.0, 0.0), (5.0, 0.0), (0.0, 3.0)))
        value = model_contrastive(z, toward, away, 0.5)
        assert value.item() == pytest.approx(math.log(1 + math.exp(-2)), rel=1e-6)

    def test_with_previous_equal_to_global_it_is_log_2_without_gradient(self) -> None:
        z, other = torch.rand(8, 16, requires_grad=True), torch.rand(8, 16)
        value = model_contrastive(z, other, other.clone(), 0.5)
        value.backward()
        assert value.item() == pytest.approx(math.log(2), rel=1e-6)
        assert z.grad is not None
        assert torch.allclose(z.grad, torch.zeros_like(z), atol=1e-8)

    def test_it_draws_to_the_global_and_away_from_the_previous_model(self) -> None:
        z = torch.tensor([[1.0, 1.0]], requires_grad=True)
        toward, away = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
        model_contrastive(z, toward, away, 0.5).backward()
        assert z.grad is not None
        assert z.grad[0, 0] < 0 < z.grad[0, 1]

    def test_teachers_are_frozen_copies_and_training_never_changes_them(self) -> None:
        model, method = Cnn(1, 10, 32), Moon(contrastive_weight=1.0, temperature=0.5)
        method.build(model, torch.Generator())
        previous = {name: value + 1 for name, value in model.state_dict().items()}
        before = copy.deepcopy(model.state_dict())
        method.start(model, LocalRound(2, 0, torch.Generator(), torch.ones(2), state=previous))
        x, y = torch.rand(4, 1, 32, 32), torch.arange(4)
        stepper = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            method.loss(model.train()(x), x, y)["l_con"].value.backward()
            stepper.step()
        assert method._teachers is not None
        toward, away = method._teachers
        for teacher, expected in ((toward, before), (away, previous)):
            assert not teacher.training
            assert not any(p.requires_grad for p in teacher.parameters())
            state = teacher.state_dict()
            assert all(torch.equal(state[name], value) for name, value in expected.items())
        assert not torch.equal(model.encoder[0].weight, before["encoder.0.weight"])  # type: ignore[arg-type]


class TestFreeze:
    @pytest.mark.parametrize(("classes", "features"), [(3, 8), (8, 3)])
    def test_the_class_vectors_are_orthonormal_and_frozen(
        self, classes: int, features: int
    ) -> None:
        classifier = nn.Linear(features, classes)
        orthogonal_classifier(classifier, torch.Generator().manual_seed(0))
        weight = classifier.weight
        product = weight @ weight.T if classes <= features else weight.T @ weight
        assert torch.allclose(product, torch.eye(3), atol=1e-6)
        assert torch.equal(classifier.bias, torch.zeros(classes))
        assert not any(p.requires_grad for p in classifier.parameters())


class TestFedUV:
    @pytest.mark.parametrize("classes", [2, 10])
    def test_one_hot_rows_of_every_class_lack_nothing(self, classes: int) -> None:
        """Column deviation of I_D: sqrt(((1 - 1/D)^2 + (D - 1) / D^2) / (D - 1)) = 1 / sqrt(D)."""
        assert classifier_deviation(100 * torch.eye(classes)).item() == pytest.approx(0, abs=1e-6)

    @pytest.mark.parametrize("classes", [2, 10])
    def test_equal_rows_lack_everything(self, classes: int) -> None:
        value = classifier_deviation(torch.ones(4, classes))
        assert value.item() == pytest.approx(classes**-0.5, rel=1e-6)

    def test_two_rows_by_hand(self) -> None:
        """p = (3/4, 1/4), (1/4, 3/4): deviation sqrt(2) / 4, so 1 / sqrt(2) - sqrt(2) / 4."""
        logits = torch.tensor([[math.log(3), 0.0], [0.0, math.log(3)]])
        expected = 2**-0.5 - 2**0.5 / 4
        assert classifier_deviation(logits).item() == pytest.approx(expected, rel=1e-6)

    def test_three_points_on_a_line_by_hand(self) -> None:
        """0, 1 and 3: squared distances 1, 9 and 4, of which 4 is the median."""
        value = uniformity(torch.tensor([[0.0], [1.0], [3.0]]))
        expected = (math.exp(-1 / 8) + math.exp(-9 / 8) + math.exp(-4 / 8)) / 3
        assert value.item() == pytest.approx(expected, rel=1e-6)

    def test_the_releases_scale_has_a_gradient_and_no_factor_2(self) -> None:
        """PyTorch's distances in float64; the second and third row are equal."""
        rows = torch.rand(6, 3, generator=torch_generator(0), dtype=torch.float64)
        rows[2] = rows[1]
        ours, theirs, detached = (rows.clone().requires_grad_() for _ in range(3))
        uniformity(ours, "release").backward()
        pairs = torch.pdist(theirs).square()
        expected = torch.exp(-pairs / pairs[pairs > 0].median()).mean()
        assert uniformity(rows, "release").item() == pytest.approx(expected.item(), rel=1e-6)
        expected.backward()
        pairs = torch.pdist(detached).square()
        torch.exp(-pairs / pairs[pairs > 0].detach().median()).mean().backward()
        assert torch.allclose(gradient(ours), gradient(theirs), rtol=1e-6, atol=1e-9)
        assert not torch.allclose(gradient(ours), gradient(detached), rtol=0.1)

    @pytest.mark.parametrize("seed", range(1, 11))
    def test_the_releases_scale_is_torchs_median_of_positive_distances(self, seed: int) -> None:
        """Values and gradients, also of equal distances, which share the gradient."""
        generator = torch.Generator().manual_seed(seed)
        found = torch.randint(-2, 6, (3 * seed,), generator=generator).double().requires_grad_()
        same = found.detach().clone().requires_grad_()
        expected = same.where(same > 0, torch.nan).nanmedian()
        value = positive_median(found)
        if not (found > 0).any():
            assert value == 0
            return
        assert value == expected
        value.backward()
        expected.backward()
        assert found.grad is not None
        assert same.grad is not None
        assert torch.equal(found.grad, same.grad)

    def test_equal_rows_have_no_gradient_with_the_releases_scale(self) -> None:
        rows = torch.ones(4, 8, requires_grad=True)
        value = uniformity(rows, "release")
        value.backward()
        assert value.item() == 1
        assert torch.allclose(gradient(rows), torch.zeros(4, 8), atol=1e-12)

    def test_one_row_gives_0(self) -> None:
        assert classifier_deviation(torch.ones(1, 4)).item() == 0
        assert uniformity(torch.ones(1, 4)).item() == 0

    @pytest.mark.parametrize("rows", [torch.ones(4, 8), torch.zeros(4, 8), 1e4 * torch.eye(4, 8)])
    def test_gradients_are_finite_at_the_edges(self, rows: Tensor) -> None:
        for term in (classifier_deviation, uniformity):
            given = rows.clone().requires_grad_()
            term(given).backward()
            assert given.grad is not None
            assert torch.isfinite(given.grad).all()

    def test_rows_that_lie_close_keep_their_gradient(self) -> None:
        """1 % apart, where differences of float32 norms have an error of 4e-3."""
        generator = torch_generator(0)
        rows = 1 + 0.01 * torch.randn(8, 256, generator=generator)
        narrow, wide = rows.clone().requires_grad_(), rows.double().requires_grad_()
        uniformity(narrow).backward()
        pairs = torch.pdist(wide).square()
        torch.exp(-pairs / (2 * pairs.detach().median())).mean().backward()
        assert narrow.grad is not None
        assert wide.grad is not None
        assert torch.allclose(narrow.grad.double(), wide.grad, rtol=1e-4, atol=1e-9)

    def test_uniformity_pushes_apart(self) -> None:
        rows = torch.tensor([[0.0], [1.0], [3.0]], requires_grad=True)
        uniformity(rows).backward()
        assert rows.grad is not None
        assert rows.grad[0] > 0 > rows.grad[2]  # a step against it moves them outwards


class TestFedRCL:
    def test_the_contrast_by_hand(self) -> None:
        """Similarities 1 with itself and 0 with the only other class: log(1 + e^(-1/T))."""
        near = similarities(torch.tensor([[2.0, 0.0], [0.0, 3.0]]))
        value = contrast(near, torch.tensor([0, 1]), 0.5, 2)
        assert value.item() == pytest.approx(math.log(1 + math.exp(-2)), rel=1e-6)

    @pytest.mark.parametrize(
        ("negatives", "harder"), [(1, [0.5]), (2, [0.5, 0.3]), (9, [0.5, 0.3, 0.1])]
    )
    def test_the_hardest_negatives_alone_count(self, negatives: int, harder: list[float]) -> None:
        """Each of four classes has one image; its similarity to itself is 1."""
        near = torch.tensor([[1.0, 0.1, 0.5, 0.3]]).expand(4, 4).clone()
        for row in range(4):
            near[row] = near[row].roll(row)
        value = contrast(near, torch.arange(4), 1.0, negatives)
        total = math.exp(1) + sum(math.exp(each) for each in harder)
        assert value.item() == pytest.approx(math.log(total) - 1, rel=1e-5)

    def test_one_class_has_no_contrast_and_no_gradient(self) -> None:
        level = torch.rand(4, 3, requires_grad=True)
        value = contrast(similarities(level), torch.zeros(4, dtype=torch.int64), 0.05, 2)
        value.backward()
        assert value.item() == 0
        assert torch.equal(gradient(level), torch.zeros(4, 3))

    def test_the_penalty_by_hand(self) -> None:
        """Cosine 0.8 is counted at a threshold of 0.7, not of 0.9: log(1 + e^(-0.2/T))."""
        near = similarities(torch.tensor([[1.0, 0.0], [0.8, 0.6]]))
        labels = torch.tensor([3, 3])
        close, far = (penalty(near, labels, 0.5, threshold) for threshold in (0.7, 0.9))
        assert close.item() == pytest.approx(math.log(1 + math.exp(-0.4)), rel=1e-6)
        assert far.item() == pytest.approx(math.log(1 + math.exp(-4)), rel=1e-6)
        assert penalty(near, torch.tensor([3, 4]), 0.5, -1.0).item() == far.item()

    def test_steps_part_classes_and_images_that_are_too_close(self) -> None:
        level = torch.tensor([[1.0, 0.1], [1.0, 0.0]])
        for labels in ([0, 1], [0, 0]):
            at, y = level.clone().requires_grad_(), torch.tensor(labels)
            near = similarities(at)
            term = contrast(near, y, 0.05, 2) if labels[1] else penalty(near, y, 0.05, 0.7)
            term.backward()
            moved = level - 0.01 * gradient(at)
            assert similarities(moved)[0, 1] < similarities(level)[0, 1]

    @pytest.mark.parametrize("rows", [torch.zeros(4, 3), torch.ones(4, 3), torch.ones(1, 3)])
    @pytest.mark.parametrize("labels", [[0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 2, 3]])
    def test_gradients_are_small_at_the_edges(self, rows: Tensor, labels: list[int]) -> None:
        given, y = rows.clone().requires_grad_(), torch.tensor(labels[: len(rows)])
        near = similarities(given)
        (contrast(near, y, 0.05, 2) + penalty(near, y, 0.05, 0.7)).backward()
        assert gradient(given).abs().max() <= 100

    def test_it_asks_for_levels_only_if_it_uses_them(self) -> None:
        for weight in (0.0, 1.0):
            model = Cnn(1, 10, 32)
            FedRCL(
                contrast_weight=weight, penalty_weight=0.0, contrast_temperature=0.05,
                penalty_threshold=0.7, hardest_negatives=2,
            ).build(model, torch.Generator())  # fmt: skip
            assert model.with_levels == bool(weight)


class TestMixup:
    def test_rows_are_mixed_with_their_partners(self) -> None:
        """0.75 * (0, 4) + 0.25 * (4, 0) = (1, 3)."""
        mixed = mix(torch.tensor([[0.0, 4.0], [4.0, 0.0]]), torch.tensor([1, 0]), 0.75)
        assert mixed.tolist() == [[1.0, 3.0], [3.0, 1.0]]

    def test_shares_follow_the_generator_alone(self) -> None:
        outside = torch.random.get_rng_state()
        first = [beta_share(0.1, torch_generator(0, "a")) for _ in range(2)]
        assert first[0] == first[1] != beta_share(0.1, torch_generator(0, "b"))
        assert torch.equal(torch.random.get_rng_state(), outside)

    def test_shares_have_the_moments_of_beta(self) -> None:
        """Beta(g, g): mean 1/2, variance 1 / (4 * (2g + 1)) = 0.2083 at g = 0.1."""
        generator = torch_generator(0, "shares")
        draws = torch.tensor([beta_share(0.1, generator) for _ in range(2000)])
        assert draws.mean().item() == pytest.approx(0.5, abs=0.05)
        assert draws.var().item() == pytest.approx(1 / (4 * 1.2), rel=0.1)


class TestStochDepth:
    def test_the_linear_rule_by_hand(self) -> None:
        assert keep_rates(4, 0.9) == pytest.approx([0.975, 0.95, 0.925, 0.9])

    def test_blocks_are_dropped_at_their_rates_and_scaled_when_kept(self) -> None:
        model, method = ResNet56Settings(32, "batch").build(1, 10), StochDepth(keep_rate=0.5)
        method.build(model, torch.Generator())
        method.start(model, LocalRound(1, 0, torch_generator(0, "drops"), torch.ones(2)))
        x, y, kept = torch.zeros(1), torch.zeros(1), torch.zeros(18)
        for _ in range(400):
            method.batch(x, y)
            branches = torch.tensor([block.branch for block in model.blocks()])
            kept += branches > 0
            rates = torch.tensor(keep_rates(18, 0.5))
            assert torch.allclose(branches[branches > 0], 1 / rates[branches > 0])
        assert torch.allclose(kept / 400, rates, atol=0.1)
        method.clean(model)
        assert all(block.branch == 1 for block in model.blocks())


def test_a_divergence_of_bfloat16_is_computed_in_float32() -> None:
    close = torch.tensor([[1.0, 2.0, 3.0]]).bfloat16()
    near = torch.tensor([[1.0, 2.0, 3.05]]).bfloat16()
    for own in (divergence, distillation):
        assert own(close, near) == own(close.float(), near.float())
    moon = [model_contrastive(close, near, near.flip(1), 0.5)]
    moon.append(model_contrastive(close.float(), near.float(), near.float().flip(1), 0.5))
    assert moon[0] == moon[1]
    labels, shares = torch.tensor([1]), torch.tensor([0.5, 0.2, 0.3])
    for term in SUPPRESSIONS.values():
        assert term(close, labels, shares) == term(close.float(), labels, shares)


class TestGradAug:
    def test_the_divergence_by_hand(self) -> None:
        """Teacher (3/4, 1/4), student (1/2, 1/2): 3/4 log(3/2) + 1/4 log(1/2)."""
        teacher = torch.tensor([[math.log(3), 0.0]], requires_grad=True)
        student = torch.zeros(1, 2, requires_grad=True)
        value = distillation(student, teacher)
        expected = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
        assert value.item() == pytest.approx(expected, rel=1e-6)
        value.backward()
        assert teacher.grad is None
        assert student.grad is not None

    def test_images_are_rescaled(self) -> None:
        x = torch.rand(2, 3, 32, 32)
        assert rescale(x, 1.0) is x
        assert rescale(x, 0.625).shape == (2, 3, 20, 20)

    def test_a_smaller_image_covers_the_same_area(self) -> None:
        """At half the size each pixel is the mean of four; with aligned corners it is not."""
        x = torch.rand(2, 3, 32, 32)
        assert torch.allclose(rescale(x, 0.5), F.avg_pool2d(x, 2), atol=1e-6)


class TestFedAlign:
    def test_the_transmitting_matrix_by_hand(self) -> None:
        """Channels (1, 2) and (3,) at one position have the products 3 and 6."""
        before = torch.tensor([1.0, 2.0]).view(1, 2, 1, 1)
        after = torch.tensor([3.0]).view(1, 1, 1, 1)
        assert transmitting_matrix(before, after).tolist() == [[[3.0], [6.0]]]

    def test_the_input_is_pooled_to_the_outputs_resolution_and_positions_averaged(self) -> None:
        before = torch.arange(16.0).view(1, 1, 4, 4)  # pooled to 2.5, 4.5, 10.5, 12.5
        assert transmitting_matrix(before, torch.ones(1, 1, 2, 2)).item() == 7.5

    def test_the_spectral_norm_is_the_largest_singular_value(self) -> None:
        matrices = torch.rand(5, 6, 3, generator=torch_generator(0))
        expected = torch.linalg.matrix_norm(matrices, ord=2)
        assert torch.allclose(spectral_norm(matrices, 10), expected, rtol=1e-4)

    @pytest.mark.parametrize("size", [1, 2, 8])
    def test_without_the_matrix_the_norm_and_its_gradient_are_the_same(self, size: int) -> None:
        """The matrix is not made at 1x1 and 2x2, and is at 8x8: 64 positions, 12 x 6 channels."""
        generator = torch_generator(0)
        before = torch.randn(5, 12, 2 * size, 2 * size, generator=generator)
        after = torch.randn(5, 6, size, size, generator=generator).requires_grad_()
        ours = lipschitz(before, after, 10)
        expected = spectral_norm(transmitting_matrix(before.double(), after.double()), 10)
        assert torch.allclose(ours.double(), expected, rtol=1e-5)
        (gradient,) = torch.autograd.grad(ours.sum(), after)
        (by_matrix,) = torch.autograd.grad(expected.sum(), after)
        assert torch.allclose(gradient, by_matrix, rtol=1e-3, atol=1e-6)

    def test_the_gap_by_hand(self) -> None:
        """One channel and one position: norms 2 * 3 and 2 * 5, whose squared difference is 16."""
        two, three, five = (torch.full((1, 1, 1, 1), v) for v in (2.0, 3.0, 5.0))
        assert lipschitz_gap(two, three, two, five, 10).item() == pytest.approx(16.0, rel=1e-5)

    @pytest.mark.parametrize(("whole_input", "millions"), [(False, 1.87), (True, 2.65)])
    def test_the_releases_narrow_stage_costs_what_table_5_says(
        self, whole_input: bool, millions: float
    ) -> None:
        """89.1 instead of 87.3 million multiplications for a 32x32 image, so about 1.8."""
        model = ResNet56Settings(32, "batch").build(3, 10)
        with FlopCounterMode(display=False) as counter:
            model.narrower_last_stage(torch.rand(1, 128, 16, 16), 0.25, whole_input=whole_input)
        assert counter.get_total_flops() / 2e6 == pytest.approx(millions, abs=0.01)

    def test_the_releases_narrow_stage_is_a_smaller_stage(self) -> None:
        """A stage built with a quarter of the channels, and the first weights, has its maps."""
        model = ResNet56Settings(32, "batch").build(3, 10)
        before = torch.rand(2, 128, 8, 8, generator=torch_generator(0))
        cut, maps = model.narrower_last_stage(before, 0.25, whole_input=False)
        assert torch.equal(cut, before[:, :32])
        small = stage(Bottle, 32, 6, 16, 2, "batch")
        state = model.stages[-1].state_dict()
        for name, value in small.state_dict().items():
            value.copy_(state[name][tuple(slice(size) for size in value.shape)])
        assert torch.allclose(small(cut), maps, atol=1e-5)

    def test_maps_of_zeros_have_finite_gradients(self) -> None:
        narrow, before = torch.zeros(2, 3, 2, 2, requires_grad=True), torch.zeros(2, 4, 4, 4)
        lipschitz_gap(before, narrow, before, torch.zeros(2, 6, 2, 2), 10).backward()
        assert narrow.grad is not None
        assert torch.isfinite(narrow.grad).all()


class TestScaffold:
    def test_a_gradient_is_counted_then_corrected(self) -> None:
        """Gradient 5, c_i - c = 2: the sum 1 becomes 6, and the step uses 3."""
        w, seen = parameter([0.0], [5.0]), [torch.tensor([1.0])]
        correct_gradients([w], seen, [torch.tensor([2.0])])
        assert seen[0].item() == 6
        assert gradient(w).item() == 3


class TestFedDyn:
    def test_the_gradient_by_hand(self) -> None:
        """Gradient 10, h_i = 4, w - anchor = 2, weight 0.5: 10 - 4 + 1."""
        w = parameter([3.0], [10.0])
        add_dynamic_gradient([w], [torch.tensor([1.0])], [torch.tensor([4.0])], 0.5)
        assert gradient(w).item() == 7


class TestFedExP:
    @pytest.mark.parametrize(("mean_of_squares", "step"), [(4.0, 1.0), (16.0, 2.0)])
    def test_the_step_by_hand_and_never_shorter_than_the_mean(
        self, mean_of_squares: float, step: float
    ) -> None:
        """||D||^2 = 4, epsilon 0: eta = 4 / 8 for clients that agree, and 16 / 8 otherwise."""
        before, after = {"w": torch.zeros(4)}, {"w": torch.ones(4)}
        extra = {NORM: torch.tensor(mean_of_squares).double()}
        clients = Contribution(1.0, {"w": torch.ones(4).double()}, extra, 1.0)
        new = ExtrapolatedStep(["w"], 0.0).update(before, after, clients)
        assert new["w"].tolist() == [step] * 4
