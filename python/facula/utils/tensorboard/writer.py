"""SummaryWriter: one folder, one event file, each add_ a record in it."""
import os
import time

from . import events

UNSUPPORTED = ("add_image", "add_images", "add_histogram", "add_histogram_raw", "add_figure", "add_video", "add_audio",
               "add_graph", "add_embedding", "add_pr_curve", "add_hparams", "add_mesh", "add_custom_scalars",
               "add_onnx_graph", "add_tensor")


class FileWriter:
    """FileWriter(log_dir, max_queue=10, flush_secs=120, filename_suffix="")

    Writes events into one file in log_dir. max_queue and flush_secs: how many events and seconds may pass before
    they are in the file.

    >>> writer = torch.utils.tensorboard.FileWriter('runs')
    >>> writer.get_logdir()
    'runs'
    >>> writer.close()
    """

    def __init__(self, log_dir, max_queue=10, flush_secs=120, filename_suffix=""):
        self.log_dir = os.fspath(log_dir)
        os.makedirs(self.log_dir, exist_ok=True)
        import socket
        now = time.time()
        name = f"events.out.tfevents.{int(now):010d}.{socket.gethostname()}.{os.getpid()}.{time.monotonic_ns() % 10 ** 9}"
        self.path = os.path.join(self.log_dir, name + filename_suffix)
        self._file = open(self.path, "xb")
        self._max_queue, self._flush_secs, self._waiting, self._flushed = max_queue, flush_secs, 0, now
        self._write(events.event(now, version=b"brain.Event:2"))
        self.flush()

    def get_logdir(self):
        """get_logdir() -> str

        The folder that the file is in."""
        return self.log_dir

    def add(self, values, step, wall_time=None):
        """Writes one event of `values` (events.scalar_value ...)."""
        wall_time = time.time() if wall_time is None else wall_time
        self._write(events.event(wall_time, 0 if step is None else int(step), values=values))
        if self._waiting >= self._max_queue or time.time() - self._flushed >= self._flush_secs:
            self.flush()

    def _write(self, message):
        self._file.write(events.record(message))
        self._waiting += 1

    def flush(self):
        """flush()

        Puts what was added into the file."""
        self._file.flush()
        self._waiting, self._flushed = 0, time.time()

    def close(self):
        """close()

        Ends the file."""
        self._file.close()


class SummaryWriter:
    """SummaryWriter(log_dir=None, comment="", purge_step=None, max_queue=10, flush_secs=120, filename_suffix="")

    Writes the curves of a training run into an event file in log_dir (by default runs/DATE_HOST + comment), for TensorBoard
    to show.

    Errors: NotImplementedError for pictures, histograms and graphs, and for purge_step.

        >>> from torch.utils.tensorboard import SummaryWriter
        >>> with SummaryWriter("curves") as writer:
        ...     writer.add_scalar("loss/train", 0.5, 1)
    """

    def __init__(self, log_dir=None, comment="", purge_step=None, max_queue=10, flush_secs=120, filename_suffix=""):
        if purge_step is not None:
            raise NotImplementedError("SummaryWriter: purge_step is not in Facula; write a new folder, or leave purge_step out")
        if not log_dir:
            import socket
            log_dir = os.path.join("runs", time.strftime("%b%d_%H-%M-%S") + "_" + socket.gethostname() + comment)
        self.log_dir = os.fspath(log_dir)
        self._options = (max_queue, flush_secs, filename_suffix)
        self.file_writer = FileWriter(self.log_dir, *self._options)
        self.all_writers = {self.log_dir: self.file_writer}

    def get_logdir(self):
        """get_logdir() -> str

        The folder that the files are in."""
        return self.log_dir

    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, new_style=False, double_precision=False):
        """add_scalar(tag, scalar_value, global_step=None, walltime=None, new_style=False, double_precision=False)

        Adds a point to the curve `tag`. scalar_value: a number or a tensor of one element. Both styles are
        written in the old one."""
        self._writer(self.log_dir).add([events.scalar_value(tag, number_of(scalar_value))], global_step, walltime)

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        """add_scalars(main_tag, tag_scalar_dict, global_step=None, walltime=None)

        Adds a point to each of several curves that are shown together; each has a folder of its own in log_dir."""
        for tag, value in tag_scalar_dict.items():
            folder = os.path.join(self.log_dir, main_tag.replace("/", "_") + "_" + tag)
            self._writer(folder).add([events.scalar_value(main_tag, number_of(value))], global_step, walltime)

    def add_text(self, tag, text_string, global_step=None, walltime=None):
        """add_text(tag, text_string, global_step=None, walltime=None)

        Adds a text."""
        self._writer(self.log_dir).add([events.text_value(tag, text_string)], global_step, walltime)

    def _writer(self, folder):
        if self.all_writers is None:  # closed: go on in a new file
            self.file_writer = FileWriter(self.log_dir, *self._options)
            self.all_writers = {self.log_dir: self.file_writer}
        if folder not in self.all_writers:
            self.all_writers[folder] = FileWriter(folder, *self._options)
        return self.all_writers[folder]

    def flush(self):
        """flush()

        Puts all that was added into the files."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self):
        """close()

        Ends the files."""
        for writer in (self.all_writers or {}).values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __getattr__(self, name):
        if name in UNSUPPORTED:
            raise NotImplementedError(f"SummaryWriter.{name} is not in Facula, which writes scalars and texts: add_scalar, "
                                      "add_scalars, add_text")
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


def number_of(value):
    return float(value.item() if hasattr(value, "item") else value)
