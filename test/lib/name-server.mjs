/** Owns a tiny name server: runs inside a namespace, answers every question with the addresses that its input names last, or not at all. */
import { createSocket } from 'node:dgram';
import { createInterface } from 'node:readline';
import { isIPv6 } from 'node:net';

const [address = ''] = process.argv.slice(2);
const types = { A: 1, AAAA: 28 };

/** @type {readonly string[] | undefined} Nothing: no answer is given. */
let addresses;

/** @param {string} text */
function bytesOf(text) {
  if (!isIPv6(text)) return Buffer.from(text.split('.').map(Number));
  const [head = '', tail = ''] = text.split('::');
  const words = (/** @type {string} */ part) => (part === '' ? [] : part.split(':'));
  const gap = 8 - words(head).length - words(tail).length;
  const groups = [...words(head), ...Array.from({ length: text.includes('::') ? gap : 0 }, () => '0'), ...words(tail)];
  const bytes = Buffer.alloc(16);
  for (const [i, group] of groups.entries()) bytes.writeUInt16BE(Number.parseInt(group, 16), i * 2);
  return bytes;
}

/**
 * One question, and for its type one record for each address.
 * @param {Buffer} query
 * @param {readonly string[]} known
 */
function answer(query, known) {
  let end = 12;
  while (query.readUInt8(end) !== 0) end += query.readUInt8(end) + 1;
  const type = query.readUInt16BE(end + 1);
  const question = query.subarray(12, end + 5);
  const fitting = known.filter((text) => (isIPv6(text) ? types.AAAA : types.A) === type).map(bytesOf);
  const header = Buffer.alloc(12);
  query.copy(header, 0, 0, 2);
  header.writeUInt16BE(0x8580, 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(fitting.length, 6);
  const records = fitting.map((data) => {
    const record = Buffer.alloc(12);
    record.writeUInt16BE(0xc00c, 0);
    record.writeUInt16BE(type, 2);
    record.writeUInt16BE(1, 4);
    record.writeUInt32BE(0, 6);
    record.writeUInt16BE(data.length, 10);
    return Buffer.concat([record, data]);
  });
  return Buffer.concat([header, question, ...records]);
}

const socket = createSocket(isIPv6(address) ? 'udp6' : 'udp4');
socket.on('message', (query, from) => {
  if (addresses !== undefined) socket.send(answer(query, addresses), from.port, from.address);
});
socket.bind(53, address, () => process.stdout.write('ready\n'));

for await (const line of createInterface({ input: process.stdin })) {
  addresses = line === 'silence' ? undefined : line.split(' ').filter((text) => text !== '');
  process.stdout.write('done\n');
}
