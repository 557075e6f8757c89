# SPDX-License-Identifier: Apache-2.0
"""What a fitted estimator holds: a model for prediction, kept in files and pickles too."""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from hugectr import checkpoints
from hugectr.base import log
from hugectr.base.errors import DataError
from hugectr.base.places import whole_place
from hugectr.base.replaced import read_settled, refuse_other_folder, whole_folder
from hugectr.callbacks.history import History
from hugectr.data.schema import LabelField, Schema
from hugectr.data.schema.encode_source import encode_in_batches, no_samples
from hugectr.estimator import description, kept_parameters
from hugectr.estimator.archive import KeptFolder, check_kinds, from_bytes, to_bytes
from hugectr.estimator.features import check_columns, source_of
from hugectr.estimator.jobs import in_one_folder
from hugectr.estimator.parameters import not_fitted
from hugectr.estimator.training import Training
from hugectr.serving.load import load
from hugectr.serving.prediction_model import PredictionModel

#: Rows that are encoded and predicted together.
_ROWS = 65_536
#: What taking the parts of a damaged description ends in; numbers may be of any size there.
_DAMAGE = (ValueError, KeyError, TypeError, AttributeError, OverflowError)


class Fitted(ABC):
    """The trained model of an estimator: its checkpoint, in a temporary folder, and loaded."""

    #: Beside the checkpoint, in a folder of ``save``.
    DESCRIPTION: ClassVar[str]
    _kept: KeptFolder | None = None
    _loaded: PredictionModel | None = None
    device: str
    schema: Schema | None

    def _train(self, training: Training) -> History:
        kept = KeptFolder()
        history = in_one_folder(f"{type(self).__name__}.fit", kept.path, training.run)
        self._loaded, self._kept = load(kept.path, device=self.device), kept
        return history

    @contextlib.contextmanager
    def _fitted_whole(self) -> Iterator[Self]:
        """What a fit is done on: this becomes it, all at once, when it has ended well.

        An error or an interrupt leaves this as it was, and never a model beside classes of another.
        """
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        yield new
        self.__dict__ = new.__dict__

    def _fitting(self, where: str, model: PredictionModel) -> PredictionModel:
        """A model that is one of this estimator; a DataError when it predicts something else."""
        if model.schema is None or len(model.schema.of_kind(LabelField)) != 1:
            raise DataError(f"{where}: the model has no schema of one label, which a fit leaves")
        nothing = no_samples(model.schema, [field.name for field in model.schema.fields], False)
        found = model.predict(nothing, output="logit").shape[1:]
        wanted = () if self._width() == 1 else (self._width(),)
        if found != wanted:
            raise DataError(
                f"{where}: the model has {int(np.prod(found))} outputs, and this "
                f"{type(self).__name__} is one of {self._width()}: they are not of one fit"
            )
        return model

    @abstractmethod
    def _width(self) -> int:
        """Logits of a row."""

    def _forget_names(self) -> None:
        self.__dict__.pop("feature_names_in_", None)

    def _model(self, call: str) -> PredictionModel:
        if self._loaded is None:
            raise not_fitted(self, call)
        return self._loaded

    @property
    def model_(self) -> PredictionModel:
        """The model that predicts, as ``hugectr.load`` returns it."""
        return self._model("model_")

    @property
    def schema_(self) -> Schema:
        """What the columns are, and what was learnt of each."""
        return self._schema()

    def _schema(self, call: str = "schema_") -> Schema:
        schema = self._model(call).schema
        assert schema is not None
        return schema

    @property
    def label_name_(self) -> str:
        """The column that is predicted, as the schema calls it."""
        return self._schema("label_name_").of_kind(LabelField)[0].name

    def _outputs(self, call: str, X: Any, output: str, width: int = 1) -> npt.NDArray[np.float32]:
        """Numbers of each row, (rows,) or (rows, width), in row order; of no rows none.

        What is in files is read piece by piece.
        """
        model = self._model(call)
        where = f"{type(self).__name__}.{call}"
        source, array = source_of(where, X, may_be_empty=True)
        if array:
            check_columns(where, source.names, self.n_features_in_)
        pieces = [
            model.predict(batch, output=output).reshape(-1, width)
            for batch in encode_in_batches(self._schema(), source, False, _ROWS, may_be_empty=True)
        ]
        found = np.concatenate(pieces)
        return found[:, 0] if width == 1 else found

    # --- files and pickles ------------------------------------------------------------------------

    n_features_in_: int
    feature_names_in_: npt.NDArray[Any]

    @abstractmethod
    def _learnt(self) -> dict[str, Any]:
        """What ``fit`` learnt besides the model, as JSON has it."""

    @abstractmethod
    def _take(self, learnt: dict[str, Any]) -> None:
        """Take that back; a ValueError when it can not be."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write model and parameters into a folder: for ``load``, ``hugectr.load`` and C++.

        Parameters are written as JSON; a warning names those that it has nothing for, such as a
        Generator as ``random_state``.

        Parameters
        ----------
        path : path-like
            A folder that is not there, is empty, or has such an estimator alone, which is replaced.

        Raises
        ------
        InvalidArgument
            When the folder has something else in it.
        DataError
            When the temporary files of the fit are gone.
        OSError
            When it can not be written.
        """
        self._model("save")
        assert self._kept is not None
        folder = self._folder_for(whole_place(f"{type(self).__name__}.save: path", path))
        place = self._kept.checkpoint(f"{type(self).__name__}.save")
        with whole_folder(folder) as beside:
            checkpoints.verified_copy(place, beside / place.name)
            description.write(beside / self.DESCRIPTION, self._described())

    def _folder_for(self, path: str | os.PathLike[str]) -> Path:
        """Where ``save`` writes; an InvalidArgument when something else is there."""
        folder = Path(os.path.realpath(path))  # of a link what it leads to; "." has no name
        name = type(self).__name__
        refuse_other_folder(f"{name}.save", folder, name, self._names_in)
        return folder

    def _names_in(self, folder: Path) -> set[str]:
        """What ``save`` has written into a folder; nothing where that is no such estimator."""
        if not (folder / self.DESCRIPTION).is_file():
            return set()
        steps = (one.name for one in folder.iterdir() if (one / "manifest.json").is_file())
        return {self.DESCRIPTION, *steps}

    def _described(self) -> dict[str, Any]:
        params = self.get_params()  # type: ignore[attr-defined]
        names = getattr(self, "feature_names_in_", None)
        kept, lost = kept_parameters.described(params, self._schema())
        if lost:
            log.warning(
                f"{type(self).__name__}.save: not kept: {', '.join(lost)}, which JSON has nothing "
                "for: the loaded one has the default, so set it before its next fit"
            )
        return {
            **kept,
            **self._learnt(),
            "n_features": self.n_features_in_,
            "features": None if names is None else names.tolist(),
        }

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, device: str = "auto") -> Self:
        """An estimator that ``save`` wrote; nothing in it is run, and all of it is checked.

        One that another process saves there meanwhile is read in whole, or the one before it.

        Raises
        ------
        DataError
            When it is none, damaged, or of a later version; when it is replaced again and again.
        """
        return read_settled(Path(path), cls.DESCRIPTION, lambda: cls._load(path, device))

    @classmethod
    def _load(cls, path: str | os.PathLike[str], device: str) -> Self:
        file = Path(path) / cls.DESCRIPTION
        try:
            said = description.read(file)
            known = cls().get_params().keys() - {"device"}  # type: ignore[attr-defined]
            self = cls(**kept_parameters.taken(said, known))
            self.device = device
            self._take(said)
            self.n_features_in_ = _columns(said["n_features"])
            if said["features"] is not None:
                names = [str(name) for name in said["features"]]
                self.feature_names_in_ = np.array(names, dtype=object)
        except DataError:
            raise
        except OSError as error:
            raise DataError(
                f"{file} can not be read: {error.strerror or error}; {cls.__name__}.load takes a "
                f"folder that {cls.__name__}.save wrote{cls._instead(file.parent)}"
            ) from error
        except _DAMAGE as error:
            raise DataError(f"{file} is no description of a {cls.__name__}: {error!r}") from error
        check_kinds(Path(path))
        # Read as a model before anything is copied: that checks what is in the files too.
        place = checkpoints.checkpoint_at(Path(path), f"{cls.__name__}.load")
        self._loaded = self._fitting(os.fspath(path), load(place, device=device))
        if kept_parameters.has_schema_of_model(said):
            self.schema = self._schema()
        self._kept = KeptFolder()
        checkpoints.verified_copy(place, self._kept.path / place.name)
        return self

    @classmethod
    def _instead(cls, folder: Path) -> str:
        """What the folder is for, where it is one of another kind."""
        for name, owner in description.OWNERS.items():
            if name != cls.DESCRIPTION and (folder / name).is_file():
                return f"; this one has a {owner}"
        return "; hugectr.load takes a checkpoint of any model" if folder.is_dir() else ""

    def __getstate__(self) -> dict[str, Any]:
        state = {n: v for n, v in self.__dict__.items() if n not in ("_kept", "_loaded")}
        if self._kept is not None:
            self._kept.checkpoint(f"state of a {type(self).__name__}")
            state["_checkpoint"] = to_bytes(self._kept.path)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        files = state.pop("_checkpoint", None)
        # Of an earlier version it may lack a parameter.
        self.__dict__.update(type(self)().get_params() | state)  # type: ignore[attr-defined]
        if files is None:
            return
        try:
            type(self)()._take(self._learnt())
        except _DAMAGE as error:
            name = type(self).__name__
            raise DataError(f"state of a {name}: what fit learnt is damaged: {error!r}") from error
        kept = KeptFolder()
        from_bytes(files, kept.path)
        self._loaded = self._fitting("the state", load(kept.path, device=self.device))
        self._kept = kept


def _columns(found: Any) -> int:
    if type(found) is not int or found < 0:
        raise ValueError(f"n_features: found {found!r:.80}, need a number of columns")
    return found
