import pytest
from shoal.capabilities import PlacementRequirement
from shoal.placement import AntiAffinity, NodeState, Options, Preference, Spread, View
from shoal.placement.slips import slips

ANY = PlacementRequirement()
TYPO = ANY.equals("zoone", "a")
SAID = "no known node has zoone; did you mean zone?"


@pytest.fixture
def view(node):
    return View.of([node("a", {"zone": "a", "gpu_nvidia": False}), node("b", {"zone": "b"})])


@pytest.mark.parametrize(
    ("requirement", "options"),
    [
        (TYPO, Options()),
        (ANY, Options(prefer=(Preference(requirement=TYPO, weight=-5),))),
        (ANY, Options(fallbacks=(ANY.equals("zone", "a"), TYPO))),
        (ANY, Options(spread=Spread(label="zoone"))),
        (ANY, Options(anti_affinity=AntiAffinity(label="zoone"))),
        (None, Options(fallbacks=(TYPO,), prefer=(Preference(requirement=TYPO),), spread=Spread(label="zoone"))),
    ],
)
def test_a_mistyped_key_is_told_once_wherever_it_stands(view, requirement, options):
    assert slips(view, requirement, options) == (SAID,)


def test_what_is_meant_well_is_no_slip(view):
    options = Options(
        prefer=(Preference(requirement=ANY.equals("zone", "b")),),
        fallbacks=(ANY,),
        spread=Spread(label="gpu_nvidia", placed=("a",)),
    )
    assert slips(view, ANY.is_true("gpu_nvidia"), options) == ()
    assert slips(View.of([]), TYPO, Options(spread=Spread(label="zoone"))) == (), "nothing is known of any key"


def test_nodes_that_are_not_there_are_told_first(view):
    options = Options(avoid=("aa",), anti_affinity=AntiAffinity(label="zone", apart_from=("a",)))
    assert slips(view, TYPO, options) == ("no node 'aa' in the view (did you mean 'a'?)", SAID)


def test_gone_nodes_and_those_beyond_the_bound_tell_nothing_of_keys(view, node):
    wider = view.replace(node("c", {"zoone": "a"}, state=NodeState.DEAD))
    assert slips(wider, TYPO) == (SAID,)
    assert slips(view.replace(node("c", {"zoone": "a"})), TYPO) == ()
    assert slips(View.of([node("a", {"zone": "a"}), node("c", {"zoone": "a"})]), TYPO, most=1) == (SAID,)


def test_a_task_may_have_meant_a_backend_and_a_query_never(view):
    options = Options(prefer=(Preference(requirement=ANY.is_true("mlxx")),))
    assert slips(view, ANY, options, of_task=True) == ("no known node has mlxx; did you mean the backend mlx?",)
    assert slips(view, ANY, options) == ("no known node has mlxx",)
    assert slips(view, ANY.is_true("mlxx"), of_task=True) == ("no known node has mlxx",), "what it must have is a label"
