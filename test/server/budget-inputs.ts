/** Holds the worst that a route accepts: the longest paths and headers, the deepest and widest bodies, texts that make patterns run away. */

export interface Input {
  readonly name: string;
  /** Appended to the path. */
  readonly query?: string;
  /** In place of every variable of the path. */
  readonly variable?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly raw?: string;
}

/** What fits into a request's head beside the rest of it. */
const head = 12_000;
const fill = (piece: string, length = head): string => piece.repeat(Math.floor(length / piece.length));

/** Pieces of what our patterns look for, so that each begins to match again and again. */
const pieces = ['eyJ', 'eyJa.', 'rf_user_', '//a:', ';q=0.', ' ,', '","', '::', '%20', 'a', '0', '-', '=;'];

export const heads: readonly Input[] = [
  ...pieces.map((piece) => ({
    name: `a query of ${JSON.stringify(piece)}`,
    query: `?${encodeURI(fill(piece, head / 3))}`,
  })),
  ...['eyJ', 'rf_user_', 'a-', '0', '%2f'].map((piece) => ({
    name: `a variable of ${JSON.stringify(piece)}`,
    variable: fill(piece, 990),
  })),
  { name: 'a thousand parameters', query: `?${fill('limit=1&', 8000)}` },
  {
    name: 'a thousand names of parameters',
    query: `?${Array.from({ length: 1000 }, (_, index) => `p${index}`).join('&')}`,
  },
  { name: 'the longest Accept', headers: { accept: `${fill('a/b;q=0.1;q=0.2,')}*/*` } },
  { name: 'an Accept of weights', headers: { accept: `application/json${fill(';q=1')}` } },
  { name: 'an Accept of spaces', headers: { accept: `application/json;q${fill(' ')}x` } },
  { name: 'the longest If-Match', headers: { 'if-match': `${fill('"1", ')}"1"` } },
  { name: 'an If-Match of spaces', headers: { 'if-match': `"1"${fill(' ')},"1"` } },
  { name: 'the longest If-None-Match', headers: { 'if-none-match': `${fill('W/"a", ')}"1"` } },
  { name: 'the longest Accept-Encoding', headers: { 'accept-encoding': `${fill('br;q=0.0,')}br` } },
  { name: 'the longest Cookie', headers: { cookie: `${fill('ringfence-session=; ')}a=b` } },
  { name: 'the longest X-Forwarded-For', headers: { 'x-forwarded-for': `${fill('10.0.0.1, ')}10.0.0.1` } },
  { name: 'the longest X-Request-Id', headers: { 'x-request-id': fill('a') } },
  { name: 'many headers', headers: Object.fromEntries(Array.from({ length: 200 }, (_, index) => [`x-${index}`, 'y'])) },
];

/** Paths that lead nowhere; they go into the log and into the answer. */
export const paths: readonly Input[] = [
  ...pieces.map((piece) => ({
    name: `a path of ${JSON.stringify(piece)}`,
    query: `/${encodeURI(fill(piece))}`.slice(0, 15_000),
  })),
  { name: 'a path of slashes', query: fill('/') },
  { name: 'a path of dots', query: fill('/..') },
];

export const credentials: readonly Input[] = [
  { name: 'a credential of spaces', headers: { authorization: `Bearer${fill(' ')}x` } },
  { name: 'a credential that begins like a signed token', headers: { authorization: `Bearer ${fill('eyJ')}` } },
  { name: 'a credential of dots', headers: { authorization: `Bearer eyJ${fill('a.', 8000)}` } },
  { name: 'the longest credential', headers: { authorization: `Bearer ${fill('a', 8100)}` } },
];

const list = (item: string, bytes: number): string => `[${fill(`${item},`, bytes - 2 - item.length)}${item}]`;

/** Bodies of `bytes` at most; `wrap` puts a value where the operation expects one. */
export function bodies(bytes: number, wrap: (value: string) => string): readonly Input[] {
  const room = bytes - 300;
  const wide = Array.from({ length: Math.floor(room / 14) }, (_, index) => `"f${index}":0`).join(',');
  return [
    { name: 'brackets', raw: fill('[', bytes) },
    { name: 'the deepest that is taken', raw: wrap(`${'['.repeat(29)}${']'.repeat(29)}`) },
    { name: 'braces', raw: fill('{"a":', bytes) },
    { name: 'spaces', raw: wrap(`0${fill(' ', room)}`) },
    { name: 'a text that does not end', raw: `"${fill('\\"', bytes - 1)}` },
    { name: 'escapes', raw: wrap(`"${fill('\\u0000', room)}"`) },
    { name: 'half pairs', raw: wrap(`"${fill('\\ud800', room)}"`) },
    { name: 'digits', raw: wrap(fill('9', room)) },
    { name: 'lines, then no JSON', raw: `${fill('\n', bytes - 1)}x` },
    { name: 'empty texts', raw: wrap(list('""', room)) },
    { name: 'numbers', raw: wrap(list('0', room)) },
    { name: 'empty arrays', raw: wrap(list('[]', room)) },
    { name: 'empty objects', raw: wrap(list('{}', room)) },
    { name: 'names that nobody knows', raw: `{${wide}}` },
    { name: 'one long name', raw: `{"${fill('x', room)}":0}` },
    { name: 'no UTF-8', raw: `"${fill('\u00ff', room / 2)}"` },
  ];
}

const rule = (ranges: string, port = 1): string =>
  `{"ip_protocol":"ip","from_port":${port},"to_port":${port},"ip_ranges":${ranges}}`;

/** Groups: valid ones of the largest size, and ones of which everything is wrong. */
export function groups(): readonly Input[] {
  const v6 = (index: number): string => `"2001:db8::${index.toString(16)}-2001:db8::ffff:${index.toString(16)}"`;
  const ranges = (count: number, of: (index: number) => string): string =>
    `[${Array.from({ length: count }, (_, index) => of(index)).join(',')}]`;
  const group = (rules: string): string => `{"group_name":"x","inbound_rules":${rules}}`;
  const many = (one: (index: number) => string): string =>
    `[${Array.from({ length: 1000 }, (_, index) => one(index)).join(',')}]`;
  return [
    { name: 'the largest group', raw: group(`[${rule(ranges(5000, v6))}]`) },
    {
      name: 'a thousand rules of ten ranges',
      raw: group(
        many((index) =>
          rule(
            ranges(5, (n) => v6(index * 5 + n)),
            index + 1,
          ),
        ),
      ),
    },
    {
      name: 'ten thousand wrong ranges',
      raw: group(`[${rule(ranges(10_000, (index) => `"::${'0:'.repeat(30)}${index}"`))}]`),
    },
    { name: 'ten thousand ranges of colons', raw: group(`[${rule(ranges(10_000, () => `"${':'.repeat(120)}"`))}]`) },
    { name: 'ten thousand ranges of dots', raw: group(`[${rule(ranges(10_000, () => `"${'1.'.repeat(60)}"`))}]`) },
    { name: 'ten thousand ranges of dashes', raw: group(`[${rule(ranges(10_000, () => `"${'1-'.repeat(60)}"`))}]`) },
    { name: 'ten thousand ranges of spaces', raw: group(`[${rule(ranges(10_000, () => `"${' '.repeat(128)}"`))}]`) },
    {
      name: 'a thousand rules of which everything is wrong',
      raw: group(many(() => '{"a":0,"b":0,"ip_protocol":[],"from_port":-1}')),
    },
    { name: 'far too many ranges', raw: group(`[${rule(list('""', 4_000_000))}]`) },
    { name: 'far too many rules', raw: group(list(rule('[]'), 400_000)) },
    { name: 'a name of control characters', raw: `{"group_name":"${fill('\\u0001', 4_000_000)}"}` },
  ];
}
