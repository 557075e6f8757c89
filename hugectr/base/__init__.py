# SPDX-License-Identifier: Apache-2.0
"""What every other package stands on: errors, checks, the log, threads, files, the processor."""
