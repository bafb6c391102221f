"""Every framework that is planned, by its name in a config."""

from ramledger.plan.frameworks.cleanrl import CLEANRL
from ramledger.plan.frameworks.elegantrl import ELEGANTRL
from ramledger.plan.frameworks.from_scratch import CUSTOM
from ramledger.plan.frameworks.own_trainer import OWN_TRAINER
from ramledger.plan.frameworks.ray_rllib import RLLIB
from ramledger.plan.frameworks.sb3 import SB3
from ramledger.plan.job import Framework
from ramledger.plan.plan_config import FrameworkName

FRAMEWORKS: dict[FrameworkName, Framework] = {
    framework.name: framework for framework in (SB3, CLEANRL, ELEGANTRL, RLLIB, OWN_TRAINER, CUSTOM)
}
