"""Sessions of recorded commands: reading them, their answers, and comparing."""
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))


class Block:
    """A command and its answer; stdout lines start with two spaces, stderr lines with '! '."""

    def __init__(self, command, lines, status):
        self.command, self.lines, self.status = command, lines, status

    def __str__(self):
        return '\n'.join([f'$ {self.command}', *self.lines, f'= {self.status}'])


def commands(name):
    """[(kind, command)] of a .cmds file."""
    rows = []
    with open(os.path.join(HERE, name + '.cmds'), encoding='utf8') as f:
        for line in f.read().splitlines():
            if line and not line.startswith('#'):
                kind, _, command = line.partition(' ')
                rows.append((kind, command))
    return rows


def answers(name):
    """The blocks of a .txt file, in order."""
    with open(os.path.join(HERE, name + '.txt'), encoding='utf8') as f:
        return parse(f.read())


def parse(text):
    blocks, command, lines = [], None, []
    for line in text.splitlines():
        if line.startswith('$ ') and command is None:
            command, lines = line[2:], []
        elif line.startswith('= ') and command is not None:
            blocks.append(Block(command, without_prose(lines), int(line[2:])))
            command = None
        elif command is not None:
            lines.append(line)
    return blocks


def without_prose(lines):
    """Without usage texts and advice, which everybody writes in their own words."""
    kept, skipping = [], False
    for line in lines:
        body = line[2:]
        if re.match(r'\s*usage:', body, re.I) or body.startswith('(usage text'):
            break
        if re.match(r'For the .*list, run|Try .*--?help|See .*help', body):
            break
        if re.match(r'\s*(action|status|see):', body):
            skipping = True
            continue
        if skipping and body and not re.match(r'\s*\w+:|$', body) and body[:1] in ' \t':
            continue
        skipping = False
        kept.append(line)
    return kept


def shape(line, fuzzy):
    """A line with runs of blanks as one; in fuzzy ones, numbers, sizes and dates by their kind."""
    line = re.sub(r'[ \t]+', ' ', line).rstrip()
    if not fuzzy:
        return line
    line = re.sub(r'\b\w{3} \w{3} +\d+ +\d+:\d+(:\d+)? \d{4}\b', '<date>', line)
    line = re.sub(r'\b\d{4}-\d\d-\d\d\.\d\d:\d\d:\d\d\b', '<date>', line)
    return re.sub(r'(?<![\w./])\d+(\.\d+)?([KMGTPB%x]|(?![\w./]))', '<n>', line)


def difference(got, want, kind):
    """None, or what differs between two blocks, compared as the kind says."""
    a = [shape(line, kind == 'f') for line in got.lines]
    b = [shape(line, kind == 'f') for line in want.lines]
    if kind == 's':
        a, b = sorted(a), sorted(b)
    elif kind == 'e':
        a, b = ([x for x in rows if x.startswith('! ')][:1] for rows in (a, b))
    # Blank lines at the end carry nothing.
    for rows in (a, b):
        while rows and not rows[-1].strip(' !'):
            rows.pop()
    if got.status == want.status and a == b:
        return None
    return f'ours:\n{got}\nthe reference:\n{want}'
