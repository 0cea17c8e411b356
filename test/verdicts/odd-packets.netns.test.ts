/** Proves what becomes of packets that no honest program sends: fragments, extension headers, other protocols, errors about nothing, forged addresses. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { addressBytes, checksum, probeMark, pseudo } from '../lib/probe-bytes.ts';
import { device4, device6, VerdictLab, type OddPacket } from '../lib/verdict-lab.ts';
import { apply } from './device.ts';
import { allow } from './table.ts';

type Family = 4 | 6;
type Row = readonly [what: string, packet: OddPacket, verdict: 'comes in' | 'does not'];

const peer: { readonly [F in Family]: bigint } = { 4: 0x6440_0002n, 6: device6 + 1n };
const own: { readonly [F in Family]: bigint } = { 4: device4, 6: device6 };
/** The policy admits TCP 443, UDP 53 and echo. */
const [open, closed] = [443, 22];
const families: readonly Family[] = [4, 6];

interface Ends {
  readonly source?: bigint;
  readonly destination?: bigint;
}
const endsOf = (family: Family, { source = peer[family], destination = own[family] }: Ends): readonly Buffer[] => [
  addressBytes(family, source),
  addressBytes(family, destination),
];

interface Header extends Ends {
  readonly protocol: number;
  readonly hopLimit?: number;
}

/** `part` is the offset in units of eight bytes, and whether more follow. The kernel adds length and checksum. */
function ip4(
  id: number,
  { protocol, hopLimit = 64, ...ends }: Header,
  payload: Buffer,
  { part = [0, false], options = Buffer.alloc(0) }: { part?: readonly [number, boolean]; options?: Buffer } = {},
): Buffer {
  const header = Buffer.alloc(20);
  header.writeUInt8(0x45 + options.length / 4, 0);
  header.writeUInt8(probeMark << 2, 1);
  header.writeUInt16BE(id, 4);
  header.writeUInt16BE((part[1] ? 0x2000 : 0) | part[0], 6);
  header.writeUInt8(hopLimit, 8);
  header.writeUInt8(protocol, 9);
  Buffer.concat(endsOf(4, ends)).copy(header, 12);
  return Buffer.concat([header, options, payload]);
}

function ip6(id: number, { protocol, hopLimit = 64, ...ends }: Header, payload: Buffer): Buffer {
  const header = Buffer.alloc(8);
  header.writeUInt32BE((0x6000_0000 | (probeMark << 22) | id) >>> 0, 0);
  header.writeUInt16BE(payload.length, 4);
  header.writeUInt8(protocol, 6);
  header.writeUInt8(hopLimit, 7);
  return Buffer.concat([header, ...endsOf(6, ends), payload]);
}

const ip = (family: Family, id: number, header: Header, payload: Buffer): Buffer =>
  family === 4 ? ip4(id, header, payload) : ip6(id, header, payload);

function tcp(family: Family, dport: number, flags = 0x02, ends: Ends = {}, content = 0): Buffer {
  const bytes = Buffer.alloc(20 + content);
  bytes.writeUInt16BE(40_000, 0);
  bytes.writeUInt16BE(dport, 2);
  bytes.writeUInt32BE(0x1234_5678, 4);
  bytes.writeUInt8(0x50, 12);
  bytes.writeUInt8(flags, 13);
  bytes.writeUInt16BE(checksum(pseudo(Buffer.concat(endsOf(family, ends)), 6, bytes)), 16);
  return bytes;
}

function icmp(family: Family, type: number, code: number, about: Buffer): Buffer {
  const bytes = Buffer.concat([Buffer.from([type, code, 0, 0, 0, 0, 0, 0]), about]);
  bytes.writeUInt16BE(checksum(family === 4 ? bytes : pseudo(Buffer.concat(endsOf(6, {})), 58, bytes)), 2);
  return bytes;
}
const icmpProtocol = { 4: 1, 6: 58 } as const;

const flagSets: readonly (readonly [string, number])[] = [
  ['SYN', 0x02],
  ['no flags', 0x00],
  ['FIN', 0x01],
  ['RST', 0x04],
  ['ACK', 0x10],
  ['SYN and ACK', 0x12],
  ['SYN and FIN', 0x03],
  ['FIN, PSH and URG', 0x29],
  ['all flags', 0x3f],
];
const flagRows = families.flatMap((family) =>
  flagSets.flatMap(([name, flags]): Row[] => [
    [
      `TCP with ${name} to a closed port over IPv${family}`,
      (id) => [ip(family, id, { protocol: 6 }, tcp(family, closed, flags))],
      'does not',
    ],
    [
      `TCP with ${name} to an open port over IPv${family}`,
      (id) => [ip(family, id, { protocol: 6 }, tcp(family, open, flags))],
      'comes in',
    ],
  ]),
);

/** The bytes read as ports that are open: of these protocols no ports count. Those in IPv6 that are extension headers have rows of their own. */
const otherProtocols = [
  2, 3, 4, 8, 9, 12, 27, 33, 41, 46, 47, 50, 88, 89, 94, 98, 103, 108, 112, 115, 132, 136, 137, 142, 200, 253, 254,
];
const protocolRows = families.flatMap((family) =>
  otherProtocols.map((protocol): Row => [
    `protocol ${protocol} over IPv${family}`,
    (id) => [ip(family, id, { protocol }, Buffer.concat([tcp(family, open), Buffer.alloc(20)]))],
    'does not',
  ]),
);
const tunnelRows = families.flatMap((family) =>
  families.map((inner): Row => [
    `TCP to an open port in IPv${inner} in IPv${family}`,
    (id) => [ip(family, id, { protocol: inner === 4 ? 4 : 41 }, ip(inner, 0, { protocol: 6 }, tcp(inner, open)))],
    'does not',
  ]),
);

/** Next header, then length and content of eight bytes. */
const extension = (next: number, ...content: readonly number[]): Buffer =>
  Buffer.from([next, 0, ...content, 0, 0, 0, 0, 0, 0].slice(0, 8));
const [hopByHop, routing, fragment, authentication, destination, none] = [0, 43, 44, 51, 60, 59] as const;
/** The headers in this order, each with padding or a content of its own, then the payload. */
function chained(id: number, kinds: readonly number[], last: number, payload: Buffer): Buffer {
  const headers = kinds.map((kind, i) => {
    const next = kinds[i + 1] ?? last;
    if (kind === authentication) return Buffer.from([next, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1]);
    if (kind === fragment) return Buffer.from([next, 0, 0, 0, 0, 0, 0, id]);
    return kind === routing ? extension(next, 0, 0) : extension(next, 1, 4);
  });
  return ip6(id, { protocol: kinds[0] ?? last }, Buffer.concat([...headers, payload]));
}
const chains: readonly (readonly [string, readonly number[]])[] = [
  ['hop-by-hop options', [hopByHop]],
  ['destination options', [destination]],
  ['a routing header at its end', [routing]],
  ['an authentication header', [authentication]],
  ['a fragment header of a whole packet', [fragment]],
  ['hop-by-hop and destination options', [hopByHop, destination]],
  ['options, a routing header and options', [hopByHop, destination, routing, destination]],
  ['eight destination options', Array.from({ length: 8 }, () => destination)],
];
const extensionRows: readonly Row[] = [
  ...chains.flatMap(([name, kinds]): Row[] => [
    [`TCP to a closed port behind ${name}`, (id) => [chained(id, kinds, 6, tcp(6, closed))], 'does not'],
    // Of one behind an authentication header, the filter sees that header as the protocol.
    [
      `TCP to an open port behind ${name}`,
      (id) => [chained(id, kinds, 6, tcp(6, open))],
      kinds.includes(authentication) ? 'does not' : 'comes in',
    ],
    [`nothing behind ${name}`, (id) => [chained(id, kinds, none, Buffer.alloc(0))], 'does not'],
    [`another protocol behind ${name}`, (id) => [chained(id, kinds, 132, tcp(6, open))], 'does not'],
  ]),
  ...[135, 139, 140].map((protocol): Row => [
    `TCP to an open port behind the extension header ${protocol}, which the kernel does not pass over`,
    (id) => [ip6(id, { protocol }, Buffer.concat([extension(6), tcp(6, open)]))],
    'does not',
  ]),
  [
    'an extension header that is cut off',
    (id) => [ip6(id, { protocol: destination }, Buffer.from([6, 9, 1, 4]))],
    'does not',
  ],
  ['a packet that ends before its header', (id) => [ip6(id, { protocol: 6 }, Buffer.alloc(0))], 'does not'],
];

/** Fragments as offset, whether more follow, and content. */
type Part = readonly [number, boolean, Buffer];
const fragments =
  (family: Family, protocol: number, parts: readonly Part[]): OddPacket =>
  (id) =>
    parts.map(([offset, more, content]) => {
      if (family === 4) return ip4(id, { protocol }, content, { part: [offset, more] });
      const header = Buffer.alloc(8);
      header.writeUInt8(protocol, 0);
      header.writeUInt16BE((offset << 3) | (more ? 1 : 0), 2);
      header.writeUInt32BE(0x0dd0_0000 + id, 4);
      return ip6(id, { protocol: fragment }, Buffer.concat([header, content]));
    });
const fragmentRows = families.flatMap((family): Row[] => {
  // The first fragment holds the whole header of TCP: of IPv6 the kernel discards others, though only behind the filter (RFC 8200 4.5).
  const [bad, good] = [closed, open].map((port) => tcp(family, port, 0x02, {}, 28));
  const [badFirst = bad, badRest = bad, goodFirst = good, goodRest = good] = [bad, good].flatMap(
    (bytes = Buffer.alloc(0)) => [bytes.subarray(0, 24), bytes.subarray(24)],
  );
  if (badFirst === undefined || badRest === undefined || goodFirst === undefined || goodRest === undefined) return [];
  const row = (what: string, parts: readonly Part[], verdict: Row[2]): Row => [
    `${what} over IPv${family}`,
    fragments(family, 6, parts),
    verdict,
  ];
  return [
    row(
      'two fragments to a closed port',
      [
        [0, true, badFirst],
        [3, false, badRest],
      ],
      'does not',
    ),
    row(
      'two fragments to an open port',
      [
        [0, true, goodFirst],
        [3, false, goodRest],
      ],
      'comes in',
    ),
    row(
      'two fragments in the wrong order to an open port',
      [
        [3, false, goodRest],
        [0, true, goodFirst],
      ],
      'comes in',
    ),
    row(
      'two fragments in the wrong order to a closed port',
      [
        [3, false, badRest],
        [0, true, badFirst],
      ],
      'does not',
    ),
    row('the first fragment alone, to an open port', [[0, true, goodFirst]], 'does not'),
    row('the last fragment alone', [[3, false, goodRest]], 'does not'),
    row('a fragment from the middle alone', [[100, true, Buffer.alloc(16)]], 'does not'),
    row('a fragment that ends beyond the longest packet', [[8_191, false, Buffer.alloc(64)]], 'does not'),
    row(
      'a fragment to an open port, which counts, and a second one in its place with a closed port, which the kernel leaves out',
      [
        [0, true, goodFirst],
        [0, true, badFirst],
        [3, false, goodRest],
      ],
      'comes in',
    ),
    row(
      'a fragment to a closed port, which counts, and a second one in its place with an open port, which the kernel leaves out',
      [
        [0, true, badFirst],
        [0, true, goodFirst],
        [3, false, badRest],
      ],
      'does not',
    ),
    row(
      'fragments to an open port that overlap in part',
      [
        [0, true, goodFirst],
        [2, false, goodRest],
      ],
      'does not',
    ),
    row(
      'fragments to an open port with a hole',
      [
        [0, true, goodFirst],
        [4, false, goodRest.subarray(8)],
      ],
      'does not',
    ),
  ];
});

/** About a connection that there is not, from a router that may be anywhere. */
const quoted: { readonly [F in Family]: Buffer } = {
  4: ip4(7, { protocol: 6, source: device4, destination: peer[4] }, tcp(4, 50_000)),
  6: ip6(7, { protocol: 6, source: device6, destination: peer[6] }, tcp(6, 50_000)),
};
const upTo = (last: number): readonly number[] => Array.from({ length: last + 1 }, (_, i) => i);
const messages: { readonly [F in Family]: readonly (readonly [type: number, codes: readonly number[]])[] } = {
  4: [
    [3, upTo(15)],
    [4, [0]],
    [5, upTo(3)],
    [11, [0, 1]],
    [12, upTo(2)],
    ...[9, 10, 13, 14, 15, 16, 17, 18, 30, 40, 42, 255].map((type) => [type, [0]] as const),
  ],
  6: [
    [1, upTo(7)],
    [2, [0]],
    [3, [0, 1]],
    [4, upTo(2)],
    ...[100, 127, 137, 138, 139, 140, 141, 142, 144, 147, 148, 149, 151, 153, 155, 160, 200, 255].map(
      (type) => [type, [0]] as const,
    ),
  ],
};
const errorRows = families.flatMap((family) => [
  ...messages[family].flatMap(([type, codes]) =>
    codes.map((code): Row => [
      `ICMP type ${type} code ${code} about no connection over IPv${family}`,
      (id) => [
        ip(family, id, { protocol: icmpProtocol[family], hopLimit: 255 }, icmp(family, type, code, quoted[family])),
      ],
      'does not',
    ]),
  ),
  ...(
    [
      ['that is cut off within the header', quoted[family].subarray(0, 12)],
      ['about nothing at all', Buffer.alloc(0)],
      [
        'about an ICMP error',
        ip(
          family,
          7,
          { protocol: icmpProtocol[family], source: own[family], destination: peer[family] },
          icmp(family, family === 4 ? 3 : 1, 0, quoted[family]),
        ),
      ],
    ] as const
  ).map(([what, about]): Row => [
    `an ICMP error ${what} over IPv${family}`,
    (id) => [ip(family, id, { protocol: icmpProtocol[family] }, icmp(family, family === 4 ? 3 : 1, 0, about))],
    'does not',
  ]),
  [
    `the ICMP of the other family over IPv${family}, an echo request there`,
    (id: number) => [
      ip(family, id, { protocol: family === 4 ? 58 : 1 }, icmp(family, family === 4 ? 128 : 8, 0, Buffer.alloc(8))),
    ],
    'does not',
  ] as const satisfies Row,
]);

const forged: readonly (readonly [string, Family, Ends])[] = [
  ['from the address of the device itself', 4, { source: device4 }],
  ['from loopback', 4, { source: 0x7f00_0001n }],
  ['from a multicast address', 4, { source: 0xe000_0001n }],
  ['from the broadcast address', 4, { source: 0xffff_ffffn }],
  ['from loopback', 6, { source: 1n }],
  ['from a multicast address', 6, { source: (0xff02n << 112n) | 1n }],
];
const addressRows: readonly Row[] = [
  ...forged.map(([what, family, ends]): Row => [
    `TCP to an open port ${what} over IPv${family}`,
    (id) => [ip(family, id, { protocol: 6, ...ends }, tcp(family, open, 0x02, ends))],
    'does not',
  ]),
  ...(
    [
      ['the broadcast address', 4, 0xffff_ffffn],
      ['the broadcast address of the network', 4, 0x6440_00ffn],
      ['all hosts', 4, 0xe000_0001n],
      ['all nodes', 6, (0xff02n << 112n) | 1n],
    ] as const
  ).map(([what, family, to]): Row => [
    `TCP to a closed port at ${what} over IPv${family}`,
    (id) => [ip(family, id, { protocol: 6, destination: to }, tcp(family, closed, 0x02, { destination: to }))],
    'does not',
  ]),
  [
    'TCP to a closed port with hop limit 255 over IPv6, as neighbour discovery has',
    (id) => [ip6(id, { protocol: 6, hopLimit: 255 }, tcp(6, closed))],
    'does not',
  ],
  [
    'TCP to a closed port with hop limit 1 over IPv6, as reports of listeners have',
    (id) => [ip6(id, { protocol: 6, hopLimit: 1 }, tcp(6, closed))],
    'does not',
  ],
];

const loose = Buffer.from([0x83, 7, 4, 100, 64, 0, 2, 0]);
const noOperation = Buffer.from([1, 1, 1, 0]);
const malformedRows: readonly Row[] = [
  [
    'TCP to an open port with a source route in its options',
    (id) => [ip4(id, { protocol: 6 }, tcp(4, open), { options: loose })],
    'does not',
  ],
  [
    'TCP to a closed port behind options',
    (id) => [ip4(id, { protocol: 6 }, tcp(4, closed), { options: noOperation })],
    'does not',
  ],
  [
    'TCP to an open port behind options',
    (id) => [ip4(id, { protocol: 6 }, tcp(4, open), { options: noOperation })],
    'comes in',
  ],
  ...families.flatMap((family): Row[] => [
    [
      `TCP that ends before its port over IPv${family}`,
      (id) => [ip(family, id, { protocol: 6 }, tcp(family, open).subarray(0, 2))],
      'does not',
    ],
    [
      `UDP that ends before its port over IPv${family}`,
      (id) => [ip(family, id, { protocol: 17 }, Buffer.from([0, 53]))],
      'does not',
    ],
    [
      `UDP of no length to a closed port over IPv${family}`,
      (id) => [ip(family, id, { protocol: 17 }, Buffer.from([156, 64, 0, 54, 0, 0, 0, 0]))],
      'does not',
    ],
    [
      `UDP from an open port to a closed one over IPv${family}`,
      (id) => [ip(family, id, { protocol: 17 }, Buffer.from([0, 53, 156, 64, 0, 8, 0, 0]))],
      'does not',
    ],
    [
      `TCP from an open port to a closed one over IPv${family}`,
      (id) => [
        ip(family, id, { protocol: 6 }, Buffer.concat([Buffer.from([1, 187]), tcp(family, closed).subarray(2)])),
      ],
      'does not',
    ],
  ]),
];

const rows: readonly Row[] = [
  ...flagRows,
  ...protocolRows,
  ...tunnelRows,
  ...extensionRows,
  ...fragmentRows,
  ...errorRows,
  ...addressRows,
  ...malformedRows,
];

let lab: VerdictLab;
beforeAll(async () => {
  lab = await VerdictLab.open();
});
afterAll(() => lab?.close());

test('each of these odd packets comes in or does not, as its sentence says', async () => {
  await apply(lab, [{ inbound: [allow('tcp', open), allow('udp', 53), allow('icmp'), allow('icmpv6')] }], true);
  const verdicts = await lab.probeOdd(rows.map(([, packet]) => packet));
  const said = rows.map(([what], i) => `${what}: ${verdicts[i] === 'accept' ? 'comes in' : 'does not'}`);
  expect(said).toEqual(rows.map(([what, , verdict]) => `${what}: ${verdict}`));
});
