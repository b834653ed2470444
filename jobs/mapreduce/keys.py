"""Keys of the slices of the data, for an even share of each reducer."""

_FIRST_DIGIT = ord("@")


def slice_key(name, number):
    """The key of a slice of the data: Hadoop deals the slices of one name to its reducers in turn.

    Its partitioner takes the remainder of a hash, h = 31 h + c over the characters c of the key: so the last
    ones are the digits of the number to base 31.
    """
    digits = []
    while number or len(digits) < 4:  # of one length, so that the hashes follow each other
        number, digit = divmod(number, 31)
        digits.append(chr(_FIRST_DIGIT + digit))
    return f"{name} {''.join(reversed(digits))}"


def slice_number(key):
    """The number that `slice_key` took.

    >>> slice_number(slice_key("buckets", 1000))
    1000
    """
    number = 0
    for digit in key.rpartition(" ")[2]:
        number = 31 * number + ord(digit) - _FIRST_DIGIT
    return number
