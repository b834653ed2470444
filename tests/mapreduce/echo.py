"""A job of no use but for tests: lines as they are, or with their places, by way of reducers or not.

Input: lines
Output: the lines, with `--places` as `file TAB line number TAB line`
"""

import os
import resource
import signal

from mapreduce.documents import DocumentsJob
from mapreduce.job import LineProtocol

from mrjob.protocol import BytesProtocol
from mrjob.step import MRStep

HOT_LINE = 1 << 20  # bytes


class Echo(DocumentsJob):
    INTERNAL_PROTOCOL = BytesProtocol
    OUTPUT_PROTOCOL = LineProtocol

    def configure_args(self):
        super().configure_args()
        self.add_passthru_arg("--reduce", action="store_true", help="go by way of reducers")
        self.add_passthru_arg("--places", action="store_true", help="put the place before each line")
        self.add_passthru_arg("--hot", type=int, help="that many long lines of one key for each line")
        self.add_file_arg("--prefix", help="a file of what to put before each line")
        self.add_passthru_arg("--die", help="a file to make and, where it is new, die: each task kind once")

    def steps(self):
        return [
            MRStep(**self.document_mapper(), **({"reducer": self.pass_on} if self.options.reduce else {}))
        ]

    def map_lines(self, lines):
        self.count("lines", len(lines))
        self.count("batches of mappers")
        for number, line in enumerate(lines):
            if self.options.places:
                path, at, _ = self.place(number)
                line = b"%s\t%d\t%s" % (os.fsencode(path), at, line)
            if self.options.prefix:
                with open(self.options.prefix, "rb") as file:
                    line = file.read() + line
            for copy in range(self.options.hot or 0):
                yield b"hot", b"%d" % copy * (HOT_LINE // len(b"%d" % copy))
            if not self.options.hot:
                yield line[:1], line
        self.die_once("mapper")

    def pass_on(self, key, lines):
        self.count("groups")
        self.die_once("reducer")
        for line in lines:
            self.count("reduced")
            if not self.options.hot:
                yield None, line
        self.count("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)

    def die_once(self, kind):
        if self.options.die:
            try:
                open(f"{self.options.die}-{kind}", "x").close()
            except FileExistsError:
                return
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    Echo.run()
