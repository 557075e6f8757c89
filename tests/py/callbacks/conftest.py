# SPDX-License-Identifier: Apache-2.0
from oracle.generated_model import auto_is_the_cpu, data_folder, make_model

__all__ = ["auto_is_the_cpu", "data_folder", "make_model"]
