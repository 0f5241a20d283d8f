"""Makes the plugin directory importable as the package ``adapter``, as Hermes' loader would."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
