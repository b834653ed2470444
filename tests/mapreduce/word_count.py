"""A job of no use but for tests: how often each word occurs, and then how many words occur that often.

Input: lines of words
Output: numbers of occurrences and words, `2 TAB 17`
"""

from mapreduce.errors import JobError
from mapreduce.job import Job, LineProtocol

from mrjob.protocol import JSONProtocol
from mrjob.step import MRStep


class WordCount(Job):
    INPUT_PROTOCOL = LineProtocol
    INTERNAL_PROTOCOL = JSONProtocol
    OUTPUT_PROTOCOL = JSONProtocol

    def configure_args(self):
        super().configure_args()
        self.add_passthru_arg("--words", action="store_true", help="stop after the first step")
        self.add_passthru_arg("--fail-at", help="a word at which to fail")
        self.add_passthru_arg("--crash", action="store_true", help="fail by a fault, not by a JobError")

    def steps(self):
        words = MRStep(mapper=self.find_words, reducer=self.count_words)
        numbers = MRStep(mapper=self.invert, combiner=self.add, reducer=self.add)
        return [words] if self.options.words else [words, numbers]

    def find_words(self, _, line):
        self.count("lines")
        for word in line.decode().split():
            if word == self.options.fail_at:
                if self.options.crash:
                    raise KeyError(word)
                raise JobError(f"no word may be {word}")
            yield word, 1

    def count_words(self, word, ones):
        self.count("words")
        yield word, sum(ones)

    def invert(self, _, number):
        yield number, 1

    def add(self, number, counts):
        yield number, sum(counts)


if __name__ == "__main__":
    WordCount.run()
