"""Expressions and statements of Jinja, one case a line: what chat templates may use. DATA is what they see."""

DATA = {
    "words": ["b", "A", "c", "a"],
    "people": [{"name": "Ann", "age": 3, "tags": ["x"]}, {"name": "bob", "age": 1, "tags": []}, {"name": "Cy", "tags": ["y", "z"]}],
    "d": {"b": 2, "a": [1, 2.5, None, True], "items": 7},
    "text": "Hello, wide-open World! Grüße 世界 x_1",
    "empty": "", "nil": None, "zero": 0, "one": 1,
}

# Falsy values before filters: what is an empty sequence, and what is an error.
FILTERS = ["map('upper')|list", "select|list", "reject|list", "selectattr('a')|list", "rejectattr('a')|list",
           "list", "join", "first", "last", "length", "sum", "sort", "unique|list", "max", "min", "batch(2)|list",
           "slice(2)|list", "groupby('a')|list", "reverse|list", "dictsort", "items|list", "tojson", "string", "int",
           "float", "default('x')", "default('x', true)", "upper", "trim", "wordcount", "map('nofilter')|list",
           "select('notest')|list", "abs", "round", "indent", "title"]
FALSY = ["none", "0", "0.0", "false", "''", "[]", "{}", "()", "missing", "5", "true"]
EXPRESSIONS = [f"{value}|{f}" for f in FILTERS for value in FALSY]

EXPRESSIONS += """
{1: 'a', 1.5: 'b', true: 'c', none: 'd', (1, 'x'): 'e'}
{1: 'a'}[1.0] ~ {1: 'a'}[true] ~ {true: 'b'}[1] ~ {none: 'n'}[none] ~ {(1, 2): 't'}[(1, 2)]
{0: 0, 512: 1, 1024: 2}[512]
{1: 2, 'a': 3}|tojson
{1.5: 2, true: 3, none: 4}|tojson
{(1, 2): 3}|tojson
{'b': 1, 'a': {2: 3}}|tojson(sort_keys=true)
{1: 1, 'a': 2}|tojson(sort_keys=true)
{[1]: 2}
{{}: 2}
{1: 1}[[1]] is defined
[1] in {1: 2}
1 in {true: 2}
1.0 in {1: 2}
{1: 'x'}.get(1)
{1: 'x'}.get(2, 'y')
{1: 'x'}.get(2) is none
{1: 'x'} == {1.0: 'x'}
{'a': 1}.keys()
{'a': 1}.values()
{'a': 1}.items()
{'a': 1, 'b': 2}.items()|list
{'a': 1}.keys()|length
{'a': 1}.keys()[0] is defined
{'a': 1}.keys()|tojson
'a' in {'a': 1}.keys()
1 in {'a': 1}.values()
{}.keys() and 1
d['items']
d|items|list
{3: 'x', 1: 'y'}|dictsort
{'b': 1, 'A': 2}|dictsort
{'b': 1, 'A': 2}|dictsort(true)
{'b': 1, 'A': 2}|dictsort(by='value', reverse=true)
{'b': 1}|dictsort(by='x')
dict([[1, 2], ['a', 3]])
dict({'a': 1}, a=2, b=3)
dict(a=1).copy()
2 ** 53 + 1 == 9007199254740992.0
1 == 1.0 and true == 1 and 0 == false
[1, true, 1.0]|unique|list
words|sort
words|sort(case_sensitive=true)
words|sort(reverse=true)
people|sort(attribute='name')|map(attribute='name')|list
people|map(attribute='age', default=0)|list
people|map(attribute='age')|map('default', 9)|list
people|map(attribute='tags.0')|list
people|map('length')|list
people|selectattr('age')|map(attribute='name')|join(', ')
people|selectattr('age', 'defined')|list|length
people|selectattr('age', '==', 1)|map(attribute='name')|list
people|selectattr('age', 'gt', 1)|map(attribute='name')|list
people|rejectattr('age', 'undefined')|map(attribute='name')|list
people|rejectattr('name', 'in', ['Ann', 'Cy'])|map(attribute='name')|list
people|selectattr('tags')|map(attribute='name')|list
people|groupby('age', default=0)|list|length
people|groupby('name')|map(attribute='grouper')|list
people|groupby('name')|map(attribute='list')|map('length')|list
people|groupby('name')|first|length
people|sum(attribute='age', start=1)
[{'a': 1}, {'a': 2}]|sum(attribute='a')
[{'a': 2, 'b': 1}, {'a': 1, 'b': 2}, {'a': 1, 'b': 1}]|sort(attribute='a,b')
[1, 2, 3, 4, 5]|select('odd')|list
[1, 2, 3, 4, 5]|select('>', 2)|list
[1, 2, 3, 4, 5]|select('<=', 2)|list
[1, 2, 3, 4, 5]|reject('divisibleby', 2)|list
[1, 2, 3]|select('in', [1, 3])|list
[1, 'a', none]|select('string')|list
['a', 'B']|map('upper')|list
['a', 'B']|map('replace', 'a', 'z')|join
['a', 'b']|map('center', 3)|list
[1, 2, 3, 4, 5]|batch(2)|list
[1, 2, 3, 4, 5]|batch(2, 'x')|list
[1, 2, 3, 4, 5, 6, 7]|slice(3)|list
[1, 2, 3, 4, 5, 6, 7]|slice(3, 'x')|list
[]|slice(2)|list
[1, 2, 3]|first
(1, 2, 3)|last
'abc'|first ~ 'abc'|last
{'a': 1, 'b': 2}|first
{'a': 1, 'b': 2}|list
[3, 1, 2]|max ~ [3, 1, 2]|min
['b', 'A']|min ~ ['b', 'A']|max(case_sensitive=true)
people|max(attribute='name')
[[1, 2], [3]]|sum(start=[])
[1, 2]|reverse|list
'añb'|reverse
[1, 2]|select|length
[1, 2]|select|last
[1, 2]|map('string')|first
([1, 2]|select)[0] is defined
'a b  c'|wordcount
text|wordcount
'foo-bar don\\'t x_1 é'|wordcount
'foo bar baz qux'|truncate(9)
'foo bar baz qux'|truncate(9, true)
'foo bar baz qux'|truncate(11)
'foo bar baz qux'|truncate(11, leeway=0)
'foo bar baz qux'|truncate(9, false, '…', 0)
'foobar'|truncate(2, leeway=0)
'Grüße aus Köln'|truncate(9, leeway=0)
'abc'|truncate(3, leeway=-1)
'Hello World, this is a long-winded text'|wordwrap(10)
'Hello World, this is a long-winded text'|wordwrap(10, break_on_hyphens=false)
'abcdefghijklmnop qr'|wordwrap(5)
'abcdefghijklmnop qr'|wordwrap(5, false)
'a b\\n\\nc d e f'|wordwrap(3, wrapstring='|')
'one -- two--three a-b foo-bar-baz'|wordwrap(6)
'one -- two--three a-b foo-bar-baz'|wordwrap(4)
'x    y      z'|wordwrap(4)
'   lead and trail   '|wordwrap(6)
'世界 世界世界 a'|wordwrap(3)
''|wordwrap(3)
'a-very-long-hyphenated-word'|wordwrap(7)
'a'|wordwrap(0)
'ab'|center(7) ~ '|'
'abc'|center(6) ~ '|'
'x'|center ~ '|'
'ab'.center(5, '*') ~ 'ab'.center(6, '*') ~ 'abc'.center(6, '*') ~ 'abc'.center(8)
'ab'.ljust(5, '.') ~ 'ab'.rjust(5, '.') ~ 'ab'.ljust(1)
'ab'.ljust(5, 'xy')
'42'.zfill(5) ~ '-42'.zfill(5) ~ '+4'.zfill(4) ~ 'abc'.zfill(2)
'a\\tb\\n\\tc'.expandtabs() ~ 'a\\tb'.expandtabs(4) ~ 'a\\tb'.expandtabs(0)
'Hello World'.istitle() ~ 'Hello world'.istitle() ~ ''.istitle() ~ 'A1B'.istitle() ~ '1'.istitle()
'abc'.isascii() ~ 'é'.isascii() ~ ''.isascii()
'a1_'.isidentifier() ~ '1a'.isidentifier() ~ ''.isidentifier() ~ 'é'.isidentifier()
'abc'.isprintable() ~ 'a\\n'.isprintable() ~ ''.isprintable() ~ 'é '.isprintable()
'²'.isdigit() ~ '²'.isdecimal() ~ '½'.isnumeric() ~ '½'.isdigit() ~ '一'.isnumeric() ~ '٣'.isdecimal() ~ 'Ⅷ'.isnumeric()
'abc'.isalnum() ~ 'a c'.isalnum() ~ '½'.isalnum() ~ ''.isalnum()
'abc'.islower() ~ 'a1'.islower() ~ '1'.islower() ~ 'aB'.islower() ~ 'ªb'.islower()
'ABC'.isupper() ~ 'A1'.isupper() ~ 'Éa'.isupper() ~ 'ǅ'.isupper() ~ 'ǅ'.istitle()
'aBc é'.swapcase() ~ 'ǅ'.lower()
' \\u2003\\t'.isspace() ~ ''.isspace()
'{} {}'.format(1, 'a') ~ '{1} {0}'.format(1, 2)
'{name} {0} {d[b]} {l[1]}'.format(5, name='n', d={'b': 2}, l=[7, 8])
'{:>5}|{:<5}|{:^5}|{:*^7}|{:05d}|{:+d}'.format('a', 'b', 'c', 'd', 42, 7)
'{:.2f} {:e} {:g} {:%} {:10.3f}|{:,} {:_}'.format(1.005, 12345.678, 1e-7, 0.256, 3.14159, 1234567, 1234567)
'{:x} {:X} {:o} {:b} {:#x} {:#b} {:c}'.format(255, 255, 8, 5, 255, 5, 65)
'{:x} {:X} {:o} {:b} {:#x} {:#b} {:08b} {:#06x}'.format(255, 255, 8, 5, 255, 5, 5, 10)
'{!r} {!s} {!r:>6}'.format('a', 'b', 'c')
'{:{}} {:{w}.{p}f}'.format('a', 4, 3.14159, w=8, p=2)
'{{}} {{{}}}'.format(1)
'{'.format(1)
'}'.format(1)
'{2}'.format(1)
'{x}'.format(1)
'{:d}'.format('a')
'{:d}'.format(1.5)
'{:s}'.format(1)
'{:>5}'.format(none)
'{} {} {}'.format(none, true, [1, 'a'])
'{:5}|{:5}|{:<5}|{}'.format(true, 1, 1, 2.0)
'{a}{b}'.format_map({'a': 1, 'b': 'x'})
'{:.3} {:.3} {:.10} {:.0f} {:.1f} {:-}'.format('abcdef', 1234.0, 1.5, 2.5, 0.25, 3)
'{:,.2f} {:08,.1f} {:+,d}'.format(1234567.891, 1234.5, -1234567)
'{0.upper} '.format('a') is string
'%s-%d-%5.2f|%-5s|%05d|%x|%X|%o|%e|%g|%%|%c' % ('a', 3, 2.5, 'b', 42, 255, 255, 8, 12345.678, 0.0001, 'z')
'%(a)s %(b)d' % {'a': 1, 'b': 2}
'%(a)s'|format(a='x')
'%s %s'|format('x', 'y')
'%s'|format('x', a=1)
'%s' % none ~ '%r' % 'a' ~ '%s' % [1, 2] ~ '%s' % (3,)
'%d' % 'a'
'%s %s' % ('a',)
'%s' % ('a', 'b')
'%d' % 3.9 ~ '%+d' % 3 ~ '% d' % 3 ~ '%5d|' % 3 ~ '%-5d|' % 3 ~ '%.3d' % 3 ~ '%i' % 3
'%*d|%-*d|%.*f' % (5, 3, 5, 3, 2, 1.239)
'%#x %#o %5.1f%%' % (255, 8, 12.34)
'%5s|%.2s|%5.1s|' % ('abc', 'abc', 'abc')
'%z' % 1
'%' % 1
'nothing' % []
13|filesizeformat ~ ' ' ~ 1|filesizeformat ~ ' ' ~ 1000|filesizeformat ~ ' ' ~ 1234567|filesizeformat ~ ' ' ~ 1024|filesizeformat(true) ~ ' ' ~ 5e12|filesizeformat(true) ~ ' ' ~ 1e30|filesizeformat
'2500'|filesizeformat
{'b': 1, 'a': [1, 2]}|pprint
[1, 'x', none]|pprint
'short'|pprint
range(40)|list|pprint
{'key_number_one': 'a fairly long value here', 'key_number_two': ['another quite long value', 'and one more'], 'z': 1}|pprint
('a long text with many words in it, ' * 4)|pprint
['a long text with many words in it, ' * 4, 2]|pprint
{'a': ('x' * 50, 'y' * 50)}|pprint
{'a': {'b': {'c': ['word ' * 20, 'line one\\nline two ' * 4]}}}|pprint
[('x' * 90,)]|pprint
'ab'|attr('upper') is defined
{'a': 1}|attr('a') is defined
missing|attr('a') is defined
1|attr('a') is defined
'%c%5c|%-3c|' % (65, 'x', 'y')
'%+.3d %#.4x %08.3d' % (5, 10, 7)
[1] in {}
{([],): 1}
{}|attr('get') is defined
'<a href=\"x\">\\'&</a>'|escape
'<b>'|e ~ '&'|forceescape
'a b/c?é&'|urlencode
{'a b': 1, 'c': 'd&e'}|urlencode
[('a', 1), ('b', '/ ')]|urlencode
'foo bar'|title ~ ' ' ~ 'it\\'s o-k (x) [y]'|title ~ ' ' ~ 'éa'|title
'HELLO wORLD'|capitalize
' x '|trim ~ '|' ~ 'xxaxx'|trim('x')
'a-b-c'|replace('-', '+') ~ 'a-b-c'|replace('-', '+', 1) ~ 5|replace(5, 6)
'a\\nb\\n\\nc'|indent ~ '|' ~ 'a\\nb'|indent(2, first=true) ~ '|' ~ 'a\\n\\nb'|indent(2, blank=true) ~ '|' ~ 'a\\nb'|indent('> ')
'a\\n'|indent ~ '|'
'a\\r\\nb'|indent
'12'|int + 1 ~ '|' ~ ' 7 '|int ~ '|' ~ '0x1f'|int(base=16) ~ '|' ~ '0x1f'|int(0, 0) ~ '|' ~ 'ff'|int(0, 16) ~ '|' ~ '1_000'|int ~ '|' ~ '1e3'|int ~ '|' ~ '3.9'|int ~ '|' ~ 'x'|int(-1) ~ '|' ~ '0b11'|int(0, 2) ~ '|' ~ '010'|int
-3.7|int ~ '|' ~ true|int ~ '|' ~ none|int(8)
'1.5'|float ~ '|' ~ 'x'|float ~ '|' ~ 'x'|float(2) ~ '|' ~ '1e3'|float ~ '|' ~ 'inf'|float ~ '|' ~ '1_0.5'|float
42.55|round ~ '|' ~ 42.55|round(1) ~ '|' ~ 42.55|round(1, 'floor') ~ '|' ~ 2.5|round ~ '|' ~ 3.5|round ~ '|' ~ 1234|round(-2) ~ '|' ~ 7|round ~ '|' ~ 42.1|round(0, 'ceil') ~ '|' ~ -2.5|round
1234.5|round(-2) ~ '|' ~ 2.675|round(2) ~ '|' ~ 1|round(2, 'ceil') ~ '|' ~ true|round
1|round(1, 'x')
-3|abs ~ 2.5|abs ~ true|abs
[1, [2, {'a': 'é<>&\\''}]]|tojson
{'a': 'é\\n\\\"\\u007f\\u2028'}|tojson(ensure_ascii=true)
'😀'|tojson(ensure_ascii=true) ~ '😀'|tojson
{'a': [1, {}], 'b': []}|tojson(indent=2)
{'a': [1, {}], 'b': []}|tojson(indent='\\t')
[1, 2]|tojson(indent=0)
{'b': 1, 'a': 2}|tojson(separators=(',', ':'), sort_keys=true)
[1.0, 1e20, 1e-7, 1.5e300, 123456789012345680.0, 0.1]|tojson
'abcabc'.find('c') ~ 'abcabc'.rfind('c') ~ 'abcabc'.find('c', 3) ~ 'abcabc'.find('c', 3, 5) ~ 'éabc'.find('b', 1) ~ 'abc'.find('', 3) ~ 'abc'.find('', 4) ~ 'abc'.find('c', -1) ~ 'abcabc'.rfind('a', 0, 3)
'aaaa'.count('aa') ~ 'abc'.count('') ~ 'abcabc'.count('b', 2) ~ 'éé'.count('')
'abc'.index('c') ~ 'abc'.rindex('a')
'abc'.index('x')
'abc'.startswith('b', 1) ~ 'abc'.endswith('b', 0, 2) ~ 'abc'.startswith(('x', 'a')) ~ 'abc'.startswith('') ~ 'abc'.startswith('c', -1)
'abc'.startswith(['a'])
'a,b,c'.split(',', 1) ~ 'a,b,c'.rsplit(',', 1) ~ 'a  b'.split(' ') ~ 'abc'.split('x') ~ ''.split(',') ~ ''.split()
'a<sep>b<sep><sep>c'.split('<sep>') ~ 'aXXXXXXXXXXXXXXXXXXXXbXXXXXXXXXXXXXXXXXXXXc'.split('XXXXXXXXXXXXXXXXXXXX')
'aXXXXXXXXXXXXXXXXXXXXXbXXXXXXXXXXXXXXXXXXXXXc'.rsplit('XXXXXXXXXXXXXXXXXXXX', 1)
'a'.split('')
'abababababababababababababab'.find('bababababababababa') ~ 'abababababababababababababab'.rfind('bababababababababa') ~ 'ababababababababababababababababab'.count('abababababababab')
'xxabcxx'.strip('x') ~ 'xxabcxx'.lstrip('x') ~ 'xxabcxx'.rstrip('x') ~ 'éaé'.strip('é') ~ 'abc'.strip('abcdefghijklmnopqrstu')
'a=b=c'.partition('=') ~ 'a=b=c'.rpartition('=') ~ 'abc'.partition('x') ~ 'abc'.rpartition('x')
'abcabc'.replace('b', 'X') ~ 'aaa'.replace('aa', 'b') ~ 'abc'.replace('', '-') ~ 'abc'.replace('', '-', 2) ~ 'abc'.replace('b', '', 0) ~ 'éé'.replace('', '.')
'abc'.removeprefix('a') ~ 'abc'.removesuffix('c') ~ 'abc'.removeprefix('x') ~ 'abc'.removesuffix('')
'a\\nb\\r\\nc\\x0bd\\u2028e\\x85f'.splitlines() ~ 'a\\n'.splitlines(true) ~ ''.splitlines()
', '.join(['a', 'b']) ~ '-'.join('abc') ~ ''.join([])
', '.join([1])
'abc'[1] ~ 'abc'[-1] ~ 'abc'[-3] ~ 'éü'[1] ~ 'éü'[-2]
'abc'[3] is defined or 'abc'[-4] is defined or 'éü'[2] is defined or 'éü'[-3] is defined
'abcdef'[2:] ~ 'abcdef'[:-2] ~ 'abcdef'[-3:-1] ~ 'abcdef'[::2] ~ 'abcdef'[::-1] ~ 'abcdef'[4:1:-1] ~ 'äöü'[1:] ~ 'äöü'[:-1] ~ 'abc'[5:] ~ 'abc'[:99] ~ 'abc'[-99:2] ~ 'abc'[2:1]
[1, 2, 3, 4][1:3] ~ (1, 2, 3)[:2] ~ [1, 2, 3][::-1] ~ [1, 2][none:none]
'abc'[::0]
[1, 2, 3].index(2) ~ [1, 1.0, true].count(1) ~ (1, 2).index(2) ~ [1, 2].copy()
[1].index(2)
(1, 2) == (1, 2) and [1] != (1,) and [1, 2] < [1, 3] and (1, 2) < (1, 2, 0)
[1, [2, 'a']] == [1.0, [2, 'a']]
'a' < 'b' < 'c'
1 < 'a'
none < 1
[1] + (2,)
[1] + [2] ~ (1,) + (2,) ~ 'a' * 3 ~ 2 * [0] ~ 'a' * -1 ~ (1,) * 2
10 // 3 ~ '|' ~ -10 // 3 ~ '|' ~ 10 % -3 ~ '|' ~ 7 / 2 ~ '|' ~ 2 ** 3 ** 2 ~ '|' ~ 2 ** -1 ~ '|' ~ 7.5 // 2 ~ '|' ~ -7.5 % 2 ~ '|' ~ 1e3 ~ '|' ~ 1_0
-2 ** 2 ~ '|' ~ (-2) ** 2 ~ '|' ~ not true ~ '|' ~ 5 % 3 * 2
true + true ~ '|' ~ true * 3 ~ '|' ~ -true
1 is number ~ true is number ~ true is integer ~ 1.0 is float ~ 1 is integer ~ 'a' is number
4 is even ~ 4.0 is even ~ 3 is odd ~ true is odd ~ 9 is divisibleby(3) ~ 9.0 is divisibleby 3
'a' is even
[] is sequence ~ {} is sequence ~ 'a' is sequence ~ 1 is sequence ~ none is sequence ~ missing is sequence ~ ([]|select) is sequence ~ {}.keys() is sequence
[] is iterable ~ {} is iterable ~ 1 is iterable ~ missing is iterable ~ ([]|select) is iterable ~ {}.items() is iterable
{} is mapping ~ [] is mapping
range is callable ~ 'a' is callable ~ 'a'.upper is callable ~ joiner is callable
'ab' is lower ~ 'AB' is upper ~ '1' is lower ~ 1 is lower
none is none ~ missing is none ~ none is defined ~ missing is undefined
1 is sameas 1 ~ 'a' is sameas 'a' ~ 1 is sameas true ~ [] is sameas [] ~ none is sameas none
1 is eq 1 ~ 1 is ne 2 ~ 1 is lt 2 ~ 2 is le 2 ~ 3 is gt 2 ~ 2 is ge 3 ~ 1 is equalto 1.0 ~ 3 is greaterthan 2 ~ 1 is lessthan 2
1 is in [1, 2] ~ 'a' is in 'abc' ~ 'a' is in {'a': 1} ~ 1 is not in [2]
'upper' is filter ~ 'nofilter' is filter ~ 'odd' is test ~ 'notest' is test ~ '==' is test
'a' is escaped ~ true is true ~ 1 is true ~ false is false ~ 0 is false ~ true is boolean ~ 1 is boolean
'x' ~ 1 ~ none ~ 1.0 ~ [1] ~ true ~ missing ~ (1,)
[1, 'a', none, 1.5, true, missing]
\"it's\" ~ [\"it's\", 'a\"b', 'a\\'b\"c', '\\n\\t\\\\', 'é\\x00\\u2028\\U0001f600']
missing.a is defined
missing.a.b
d.missing is defined
none.a is defined
(missing or 'x') ~ (zero and 1) ~ (nil or 'n') ~ (empty or 'e')
1 if zero else 2
'x' if zero
range(5)|list ~ range(1, 10, 3)|list ~ range(5, 0, -2)|list ~ range(0)|list ~ range(3)|length ~ range(5)[2] ~ range(5)|last
[1,2,3]|batch(2, 'x')|map('join')|join('-')
[1,2,3]|batch(missing)|list
[1,2,3]|batch(5, 0)|list
[]|batch(2, 'x')|list
'abc'|batch(2)|list
[1,2,3,4]|batch(true)|list
['a', 'b']|sum
[[1], [2]]|sum(start=[0])
[1.5, 2]|sum(start=1)
people|sum(attribute='age')
[{'a': 'x'}]|sum('a', '')
[1, 2]|sum('', 3)
''|sum
[none, none]|sort
[missing, missing]|sort
[1, missing]|sort
people|sort(attribute='nothing')|map(attribute='name')|list
people|sort(attribute='name')|map(attribute='name')|list
people|sort(attribute='name,age', reverse=true)|map(attribute='name')|list
people|sort(attribute='name', case_sensitive=true)|map(attribute='name')|list
[[2, 'b'], [1, 'a']]|sort(attribute=0)
[[2, 'b'], [1, 'a']]|sort(attribute='1')
[3, true, 2.5]|sort
[[], {}]|sort
[{'a': 1}, {'a': 0}]|sort(attribute='a.b')
[{'a': 1}]|min(attribute='b')
[missing, 1]|max
15|round(-1)
25|round(-1)
-15|round(-1)
150|round(-2)
250|round(-2)
50|round(-2)
9223372036854775499|round(-3)
9000000000000000000|round(-18)
true|round(-1)
15.0|round(-1)
25.0|round(-1)
1234.5|round(-2)
1e22|round(-21)
1e22|round(2)
2.5|round(0)
2.4|round(0, 'ceil')
2.4|round(0, 'floor')
7|round(-1, 'floor')
1e300|round(300, 'floor')
'7 8'|int
'0x1f'|int
'0x1f'|int(base=16)
'1f'|int(0, 16)
'0b11'|int(0, 2)
'0o17'|int(0, 8)
'017'|int(9, 0)
'z'|int(0, 36)
'9'|int(4, 8)
'1__0'|int
'_1'|int
'１２３'|int
'١٢'|int
'²'|int
'１.５'|float
'1.5e3'|float
'inf'|float
'nan'|float
'infinity'|int(3)
'1e400'|float
'1e400'|int(2)
''|int(5)
9007199254740993|float
4611686018427387904.0|int
0x1F ~ ' ' ~ 0X1f ~ ' ' ~ 0xdead_beef
0b101 ~ ' ' ~ 0o17 ~ ' ' ~ 0B1 ~ ' ' ~ 0O7
[1, 2, 3][0x1]
0x7FFFFFFFFFFFFFFF
0xfg
0b12
0o8
0x
00 ~ 0_0
007
1_000
1_000.5
00.5
01.5
0e5
1.0e1_0
'a\\qb'
'\\N'
'\\x41\\u00e9\\101'
'Straße ŒÆ ǆ ﬂ ŉ'.upper()
'Straße ŒÆ ǆ ﬂ ŉ'|upper
'STRASSE İI'.lower()
'straße ǆabc ﬁsh'.title()
'straße ǆabc ﬁsh'|title
'ﬁsh'.capitalize()
'ǆabc'.capitalize()
'ßx'|capitalize
'Straße'.swapcase()
'ﬁﬀ'.swapcase()
'Straße'.casefold() ~ 'ΣΑΣ'.casefold() ~ 'ﬀ'.casefold() ~ 'İ'.casefold()
'Ω'.lower() ~ 'K'.lower() ~ 'ℓ'.upper() ~ 'ÿ'.upper() ~ 'ŷ'|upper
'ΐ'.upper() ~ 'ᾳ'.upper() ~ 'և'.upper()
'x'|filesizeformat
''|filesizeformat
none|filesizeformat
true|filesizeformat
'1e3'|filesizeformat
[1, 2]|filesizeformat
1e400|int
{'a': 1}|round
""".strip().split("\n")

STATEMENTS = [
    "{% set c = cycler('a', 'b', 3) %}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c.reset() }}{{ c.next() }}",
    "{% set j = joiner() %}{{ j() }}a{{ j() }}b{{ j() }}c{% set k = joiner('|') %}{{ k() }}{{ k() }}",
    "a{% block x %}b{{ one }}{% endblock %}c{% block y %}{% set one = 5 %}{{ one }}{% endblock y %}{{ one }}",
    "{% set t = 1 %}{% block x %}{{ t }}{% endblock %}{% for i in [1, 2] %}{% block b scoped %}{{ i }}{% endblock %}{% block n %}[{{ i is defined }}]{% endblock %}{% endfor %}",
    "{% block x %}{% endblock %}{% block x %}{% endblock %}",
    "{% autoescape false %}<{{ '<' }}>{% set z = 1 %}{% endautoescape %}{{ z is defined }}",
    "{% filter upper|replace('A', 'b') %}xa{{ one }}{% endfilter %}",
    "{% macro m(x, y='d') %}[{{ x }}{{ y }}{{ caller() if caller }}{{ varargs }}{{ kwargs }}]{% endmacro %}{{ m(1) }}{{ m(1, 2, 3, z=4) }}{% call m('c') %}in{% endcall %}",
    "{% macro m() %}{{ caller(1, b=2) }}{% endmacro %}{% call(a, b=5, c=6) m() %}{{ a }}{{ b }}{{ c }}{% endcall %}",
    "{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}",
    "{% macro m(a, a2=a ~ 'x') %}{{ a2 }}{% endmacro %}{{ m('q') }}{{ m.name }}",
    "{% set x %}<{{ one }}>{% endset %}{{ x|length }}{% set y|upper|trim %} ab {% endset %}[{{ y }}]",
    "{% set ns = namespace({'a': 1}, b=2) %}{% set ns.a = ns.a + 1 %}{% set ns.c %}z{% endset %}{{ ns.a }}{{ ns.b }}{{ ns.c }}{{ ns.q is defined }}",
    "{% for a, b in [[1, 2], [3, 4]] %}{{ a }}-{{ b }};{% endfor %}{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for k in {1: 2, 'a': 3} %}{{ k }};{% endfor %}{% for c in 'aé' %}{{ c }};{% endfor %}{% for x in missing %}{% else %}e{% endfor %}",
    "{% for x in 5 %}{% endfor %}",
    "{% set g = [1, 2]|select %}{{ g|list }}{{ g|list }}",
    "{% set g = [1, 2, 3]|map('string') %}{{ g|first }}{{ g|join }}{{ g|list }}",
    "{% set g = [1, 2, 3]|select %}{{ 2 in g }}{{ g|list }}",
    "{% for i in range(3) %}{{ loop.changed(i // 2) }}{{ loop.cycle('a', 'b') }}{{ loop.nextitem }}{{ loop.previtem is defined }}{% endfor %}",
    "{% for i in [1, 2, 3, 4] if i is even %}{{ loop.index }}/{{ loop.length }}{{ loop.last }}{% else %}n{% endfor %}",
    "{% with a = 1, b = a is defined %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}",
    "{% include 'x' %}", "{% extends 'x' %}", "{% import 'x' as y %}", "{% from 'x' import y %}",
    "{% set _ = d.update({'x': 1}) %}", "{% set _ = d.pop('b') %}", "{% set _ = words.sort() %}", "{% set _ = d.setdefault('x', 1) %}",
    "{{ people|groupby('age', default=0) }}",
    "{% for g in people|groupby('age', default=0) %}{{ g.grouper }}:{{ g.list|length }};{{ g[0] }};{% endfor %}",
    "{{ [1,2,3]|first }}{{ ''|first is defined }}{{ []|last is defined }}{{ []|max is defined }}",
    "{{ 'a' if true }}{{ 'b' if false else 'c' if true else 'd' }}",
    "{{ words|map('lower')|sort|join(',') }}{{ people|join(', ', attribute='name') }}",
    "{% macro n() %}{{ caller() }}{% endmacro %}{% macro m() %}{% call n() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}",
    "{% macro n() %}{{ caller() }}{% endmacro %}{% macro m() %}{% call n() %}{{ caller() }}{% endcall %}{% endmacro %}{% call m() %}x{% endcall %}",
    "{% macro n() %}<{{ caller() }}>{% endmacro %}{% macro m() %}{% call n() %}a{% endcall %}{{ caller() }}{% endmacro %}{% call m() %}x{% endcall %}",
    "{% macro m() %}{{ caller() if caller else 'none' }}{% endmacro %}{{ m() }}{% call m() %}x{% endcall %}",
    "{% macro m(a) %}{% macro n(b) %}{{ varargs }}{% endmacro %}{{ n(1, 2) }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{% macro n(b) %}{{ a }}{{ b }}{% endmacro %}{{ n(1, 2) }}{% endmacro %}{{ m(1) }}",
    "{% macro m(a) %}{% set caller = 1 %}{{ caller }}{% endmacro %}{{ m(1) }}",
    "{% macro m(a) %}{{ kwargs.x }}{% set kwargs = 1 %}{% endmacro %}{{ m(1, x=2) }}",
    "{% macro m(a, kwargs) %}{{ kwargs }}{% endmacro %}{{ m(1, 2) }}{{ m(1, kwargs=3) }}",
    "{% macro m(a, varargs=4) %}{{ varargs }}{% endmacro %}{{ m(1) }}",
    "{% macro m(caller=5) %}{{ caller }}{% endmacro %}{{ m() }}{{ m(6) }}{{ m(caller=7) }}",
    "{% macro m(caller=5) %}{{ caller() }}{% endmacro %}{% call m() %}x{% endcall %}",
    "{% macro m(a=1, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ m(b=5) }}{{ m(3) }}{{ m(**{'a': 9}) }}{{ m(*[7, 8]) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, *[2]) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(a=1, **{'a': 2}) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(**{'z': 2}) }}",
    "{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}{{ m(none) }}",
    "{% macro m() %}{% for i in range(2) %}{{ loop.index }}{% endfor %}{% endmacro %}{{ m() }}",
    "{% macro m(x) %}{{ x }}{% if x > 0 %}{{ m(x - 1) }}{% endif %}{% endmacro %}{{ m(3) }}",
    "{% macro m(x) %}{{ x }}{% endmacro %}{{ [1, 2]|map('string')|map('upper')|join }}{{ m|string }}",
    "{% macro m(x) %}{{ x }}{% endmacro %}{{ m is callable }}{{ m is defined }}{{ m == m }}{{ m != m }}",
    "{% macro m() %}{{ caller(1) }}{{ caller(1, 3) }}{{ caller(b=4) }}{% endmacro %}{% call(a, b=2) m() %}[{{ a }}{{ b }}]{% endcall %}",
    "{% macro m() %}{{ caller(1, x=2) }}{% endmacro %}{% call(a) m() %}[{{ a }}{{ kwargs }}]{% endcall %}",
    "{% macro m() %}{{ caller(1, 5) }}{% endmacro %}{% call(a) m() %}[{{ a }}{{ varargs }}]{% endcall %}",
    "{% macro m() %}{{ caller.name }}|{{ caller.arguments }}|{{ caller.caller }}{% endmacro %}{% call(a) m() %}{% endcall %}",
    "{% macro m() %}{{ caller }}{% endmacro %}{% call(a) m() %}{% endcall %}",
    "{% for x in [1, 2] %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}",
    "{{ range.name is defined }}{{ self.name is defined }}",
    "{% macro m() %}{% endmacro %}{{ m['catch_kwargs'] }}{{ m|attr('name') }}",
    "{% block t %}{{ self.t is defined }}{% endblock %}",
    "{% block a %}[{{ self.b() }}]{% endblock %}{% block b %}B{% endblock %}",
    "{% block a %}{{ self.a() }}{% endblock %}",
    "{% if false %}{% block a %}A{% endblock %}{% endif %}{{ self.a() }}",
    "{% macro m() %}{{ self.a() }}{% endmacro %}{% block a %}A{% endblock %}{{ m() }}",
    "{% block a %}A{% endblock %}{{ self.a(1) }}",
    "{% block a %}A{% endblock %}{{ self.a|string|length > 3 }}",
    "{% block a %}A{% endblock %}{{ self.a()|lower }}{{ self['a']()|length }}",
    "{% block a %}A{% endblock %}{{ self is callable }}{{ self is mapping }}{{ self is string }}",
    "{% for i in range(2) %}{% block a scoped %}{{ i }}{% endblock %}{% endfor %}{{ self.a() }}",
    "{% macro m(a) %}{% block b %}{{ a }}{% endblock %}{% endmacro %}{{ m(1) }}",
    "{% with x = 1 %}{% block b %}{{ x }}{% endblock %}{% endwith %}",
]
