/** Owns the readable page of evidence. It says what the JSON in it says, works without script, and loads nothing. */
import type {
  EvidenceCause,
  EvidenceDocument,
  EvidenceOthers,
  EvidenceReach,
  EvidenceRule,
  EvidenceState,
  EvidenceWrite,
} from '../../api/evidence/document.ts';
import { ruleText, type DeviceNaming } from '../../client/words/rule.ts';
import { actionText } from '../../client/words/action.ts';
import { evidenceBody } from '../../node/evidence-file.ts';
import { printable } from '../../node/printable.ts';
import type { FileRoom } from './file-room.ts';

/** Names and descriptions are chosen by people: no text becomes markup, and no character hides. */
const escape = (text: string): string =>
  printable(text).replace(
    /[&<>"']/g,
    (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' })[c] ?? c,
  );

/** Markup that was made here. Everything else is escaped when it is put into a template. */
class Html {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/** A large document is written in steps, between which the caller can do other work. */
type Steps<T> = Generator<void, T, undefined>;

type Part = Html | string | number | readonly (Html | string)[];

const textOf = (part: Part): string => {
  if (part instanceof Html) return part.text;
  if (typeof part === 'object') return part.map(textOf).join('');
  return escape(String(part));
};

const html = (strings: TemplateStringsArray, ...parts: readonly Part[]): Html =>
  new Html(strings.reduce((text, string, index) => `${text}${textOf(parts[index - 1] ?? '')}${string}`));

const style = `:root{color-scheme:light dark;--line:#8884;--soft:#8881}
*{box-sizing:border-box}body{font:15px/1.5 system-ui,sans-serif;margin:0 auto;padding:1rem;max-width:72rem;overflow-wrap:anywhere}
h2{margin-top:2rem;border-bottom:1px solid var(--line)}h3{margin:1.5rem 0 .25rem}
code{font:.9em/1.45 ui-monospace,monospace;background:var(--soft);border-radius:.25rem;padding:.1em .3em}
table{border-collapse:collapse;width:100%;margin:.5rem 0}
th,td{text-align:left;vertical-align:top;padding:.3rem .8rem .3rem 0;border-bottom:1px solid var(--line)}
th{font-weight:600}details{margin:.5rem 0}.warn{border-left:4px solid #d97706;padding:.1rem .8rem;background:var(--soft)}
@media print{details{display:block}}`;

const row = (cells: readonly Part[]): Html =>
  html`<tr>
    ${cells.map((cell) => html`<td>${cell}</td>`)}
  </tr> `;

const table = (head: readonly string[], rows: readonly (Html | readonly Part[])[]): Html =>
  html`<table>
    <thead>
      <tr>
        ${head.map((one) => html`<th scope="col">${one}</th>`)}
      </tr>
    </thead>
    <tbody>
      ${rows.map((one) => (one instanceof Html ? one : row(one)))}
    </tbody>
  </table> `;

const nameOf = ({ id, hostname }: { readonly id: string; readonly hostname: string }): string =>
  hostname === '' ? id : hostname;

const personOf = ({ by, by_server }: EvidenceWrite): string =>
  by_server ? 'the server' : by === undefined ? 'not known' : (by.username ?? by.user_id);

/** `ada at 2026-11-09T10:00:00.000Z (revision 12, change …)`. */
const writeWords = (write: EvidenceWrite): string =>
  `${personOf(write)} at ${write.at} (revision ${write.revision}${write.change_id === undefined ? '' : `, change ${write.change_id}`})`;

const portWords = (ports: readonly { readonly from: number; readonly to: number }[] = []): string =>
  ports
    .map(({ from, to }) => (from === 0 && to === 65_535 ? 'all ports' : from === to ? `${from}` : `${from}-${to}`))
    .join(', ');

const protocolWords: Readonly<Record<string, string>> = {
  any: 'any protocol',
  icmp: 'ping',
  icmpv6: 'ping (IPv6)',
  other: 'other protocols',
};

const trafficWords = ({ protocol, ports }: EvidenceReach['traffic'][number]): string =>
  [(Object.hasOwn(protocolWords, protocol) ? protocolWords[protocol] : undefined) ?? protocol, portWords(ports)]
    .filter((word) => word !== '')
    .join(' ');

const ruleLink = (key: string): Html | string =>
  key === 'open'
    ? 'no outbound rules'
    : key === 'isolation'
      ? 'its isolation allows it'
      : html`<a href="#${key}">${key}</a>`;

/** Rules that are linked, and names that are escaped, in one step. */
const linksAtOnce = 256;
const namesAtOnce = 50;

function* ruleLinks(keys: readonly string[]): Steps<Html> {
  const links: string[] = [];
  for (const key of keys) {
    links.push(textOf(ruleLink(key)));
    if (links.length % linksAtOnce === 0) yield;
  }
  return new Html(links.join(', '));
}

function* namesOf(devices: EvidenceReach['devices']): Steps<Html> {
  const parts: string[] = [];
  for (let from = 0; from < devices.length; from += namesAtOnce) {
    const some = devices.slice(from, from + namesAtOnce);
    parts.push(escape(some.map(nameOf).join(', ')));
    yield;
  }
  return new Html(parts.join(', '));
}

function* reachTable(
  entries: readonly EvidenceReach[],
  words: { readonly head: string; readonly none: string },
): Steps<Html> {
  if (entries.length === 0) return html`<p>${words.none}</p> `;
  const rows: Html[] = [];
  for (const { devices, traffic, source, target } of entries) {
    const names = yield* namesOf(devices);
    const [sources, targets] = [yield* ruleLinks(source), yield* ruleLinks(target)];
    rows.push(row([names, traffic.map(trafficWords).join('; '), sources, targets]));
    yield;
  }
  return table([words.head, 'Traffic', 'Let out by', 'Let in by'], rows);
}

function causeRow(cause: EvidenceCause): readonly Part[] {
  if (cause.kind === 'time') return [cause.at, '', 'Time passed: a rule expired or an isolation ended.', ''];
  const { kind, name, id, type, before, after, operation, credential } = cause;
  const what =
    operation === undefined || credential === undefined
      ? `${type} ${kind}`
      : actionText({ operation, credential: { kind: credential as 'user_token' } });
  return [
    cause.at,
    personOf(cause),
    `${what} ${name === '' ? id : name} (revision ${cause.revision}${cause.change_id === undefined ? '' : `, change ${cause.change_id}`})`,
    html`<details>
      <summary>fields</summary>
      before <code>${JSON.stringify(before ?? null)}</code><br />after <code>${JSON.stringify(after ?? null)}</code>
    </details>`,
  ];
}

const groupWords = {
  list: 'in its list',
  label: 'by label',
  default: 'default group',
  guardrail: 'guardrail',
} as const;

function* stateSection(state: EvidenceState, index: number, end: string | undefined): Steps<Html> {
  const { from, until = end, revision, causes, device, groups, admits, admits_more = 0, in_force_on_all_at } = state;
  const time = until === undefined ? from : `${from} to ${until}`;
  const head = html`<h3>State ${index + 1}: ${time}</h3>
    <p>
      Revision ${revision} of the organization.
      ${
        in_force_on_all_at === undefined
          ? ''
          : `The sample of ${in_force_on_all_at} shows the policy in force on every device.`
      }
    </p> `;
  const changed =
    causes.length === 0
      ? ''
      : html`<h4>What made it</h4>
          ${table(['When', 'Who', 'What', ''], causes.map(causeRow))}`;
  if (device === undefined)
    return html`${head}${changed}
      <p>The device did not exist.</p> `;
  const isolation =
    device.isolated === undefined
      ? ''
      : html`<p class="warn">The device was isolated: <code>${JSON.stringify(device.isolated)}</code></p> `;
  const addresses = [device.tunnel_ip, ...device.addresses].filter((one) => one !== '').join(', ');
  const inEffect =
    groups === undefined
      ? html`<p class="warn">A group in the list of the device is not known, so what it admitted is not known.</p> `
      : table(
          ['Group', 'Why it applies'],
          groups.map(({ name, by, guardrail }) => [
            name,
            guardrail === undefined ? groupWords[by] : `guardrail: ${guardrail}`,
          ]),
        );
  const reachedBy = yield* reachTable(state.reached_by, {
    head: 'Device',
    none: 'No device of the organization could connect to it.',
  });
  const reaches = yield* reachTable(state.reaches, {
    head: 'Device',
    none: 'It could connect to no device of the organization.',
  });
  const sets: Html[] = [];
  for (const { direction, protocol, ports, ranges } of admits) {
    sets.push(row([direction, trafficWords({ protocol, ...(ports && { ports }) }), ranges.join(', ')]));
    yield;
  }
  const [toIt, fromIt] = [yield* ruleLinks(state.inbound_rules), yield* ruleLinks(state.outbound_rules)];
  return html`${head}${changed}${isolation}
    <p>
      Name ${device.hostname}, addresses ${addresses || 'none'}, labels ${device.labels.join(', ') || 'none'}. Written
      by ${writeWords(device.written)}.
    </p>
    ${inEffect}
    <p>Rules to it: ${toIt}. Rules from it: ${fromIt}.</p>
    <h4>Devices that could connect to it</h4>
    ${reachedBy}
    <h4>Devices that it could connect to</h4>
    ${reaches}
    <details>
      <summary>Everything that the device itself admitted, by address</summary>
      ${table(['Direction', 'Traffic', 'Far end'], sets)}
      ${admits_more === 0 ? '' : html`<p>This file does not list ${admits_more} further sets.</p> `}
    </details> `;
}

const ruleRow = (key: string, rule: EvidenceRule, names: DeviceNaming): readonly Part[] => [
  html`<span id="${key}">${key}</span>`,
  rule.group_name,
  html`<code>${rule.direction === 'inbound' ? 'in' : 'out'} ${ruleText(rule.direction, rule.rule, names)}</code>`,
  rule.written === undefined ? 'not known' : writeWords(rule.written),
];

function* inForceSection({ in_force: { now, others, samples } }: EvidenceDocument): Steps<Html> {
  const whole = samples.filter(({ devices, in_force }) => devices === in_force).length;
  const past =
    samples.length === 0
      ? ''
      : html`<p>
          Samples of the organization in that time: ${samples.length}. In ${whole} of them, the policy was in force on
          every device.
        </p> `;
  const far = others === undefined ? '' : yield* othersTable(others);
  if (now === undefined) return html`${past}${far}`;
  const report =
    now.reported_at === undefined
      ? 'It has not reported.'
      : `It reported at ${now.reported_at}${now.revision === undefined ? '' : ` that its kernel enforces revision ${now.revision}`}.`;
  const same = now.same_policy ? 'The last state above is still its policy.' : 'Its policy has changed since.';
  return html`${past}
    <p>In force on the device when this file was made: ${now.in_force.replaceAll('_', ' ')}. ${report} ${same}</p>
    ${far}`;
}

function* othersTable({ whose, devices, proven, receipts }: EvidenceOthers): Steps<Html> {
  const who =
    whose === 'reach'
      ? 'Devices of the last state that could connect to it, or that it could connect to'
      : 'The device is isolated, and every other device has to refuse it except those that its isolation allows';
  const rows: Html[] = [];
  for (const { id, hostname, in_force, revision, reported_at, policy_digest, same_policy } of receipts) {
    const policy = same_policy ? 'as in the last state' : 'changed since';
    const digest = policy_digest === undefined ? '' : html`<code>${policy_digest}</code>`;
    const name = nameOf({ id, hostname });
    rows.push(row([name, in_force.replaceAll('_', ' '), policy, revision ?? '', reported_at ?? '', digest]));
    yield;
  }
  const list =
    rows.length === 0 ? '' : table(['Device', 'In force', 'Its policy', 'Revision', 'Reported', 'Digest'], rows);
  return html`<p>
      ${who}: ${devices}. Of these, ${proven} proved when this file was made that their kernels hold the last state.
    </p>
    <details>
      <summary>What each of them reported</summary>
      ${list}
    </details> `;
}

function* trafficSection({ traffic: { since, until, recorded, refused } }: EvidenceDocument): Steps<Html> {
  const days = recorded.map(({ day, refused_seconds, not_recorded }) => [day, refused_seconds, not_recorded]);
  const rows: Html[] = [];
  for (const { since: start, direction, far, far_devices, protocol, port, packets, decision } of refused) {
    const farEnd =
      far_devices.length === 0 ? far : `${far} (${far_devices.map(({ hostname }) => hostname).join(', ')})`;
    const traffic = port === undefined ? protocol : `${protocol} ${port}`;
    const verdict = decision === undefined ? '' : `${decision.verdict}: ${decision.reason}`;
    rows.push(row([start, direction, farEnd, traffic, packets, verdict]));
    yield;
  }
  const list =
    rows.length === 0
      ? html`<p>No refusal is recorded.</p> `
      : table(['Since', 'Direction', 'Far end', 'Traffic', 'Packets', 'The policy then'], rows);
  return html`<p>From ${since} to ${until}.</p>
    ${recorded.length === 0 ? '' : table(['Day', 'Seconds recorded', 'Packets not recorded'], days)}${list}`;
}

function testSection({ policy_tests: { known, tests } }: EvidenceDocument): Html {
  if (!known) return html`<p>Not known.</p> `;
  if (tests.length === 0) return html`<p>No policy test was about the device.</p> `;
  return table(
    ['Test', 'What', 'Result'],
    tests.map(({ name, from, to, protocol, port, expect, state }) => [
      name,
      html`<code>${JSON.stringify(from)}</code> to <code>${JSON.stringify(to)}</code> ${protocol} ${port ?? ''}:
        ${expect}`,
      state,
    ]),
  );
}

function* ruleTable(rules: EvidenceDocument['rules'], names: DeviceNaming, room: FileRoom): Steps<Html> {
  const rows: Html[] = [];
  for (const [key, rule] of Object.entries(rules)) {
    const one = row(ruleRow(key, rule, names));
    room.take(one.text.length);
    rows.push(one);
    yield;
  }
  return table(['', 'Group', 'Rule', 'Since the write of'], rows);
}

/** The page and the JSON in it, without the signature. Throws `TooMuchEvidence` as soon as they have no room. */
export function* evidencePage(document: EvidenceDocument, room: FileRoom): Steps<string> {
  const { organization, device, at, to, created_at, created_by, server_version, states, rules, not_known } = document;
  const hostnames = new Map<string, string>();
  for (const { reached_by, reaches } of states) {
    for (const { devices } of [...reached_by, ...reaches])
      for (const { id, hostname } of devices) hostnames.set(id, hostname);
    yield;
  }
  const names: DeviceNaming = { nameOf: (id) => (id === device.id ? device.hostname : hostnames.get(id)) };
  const title = `Evidence about ${nameOf(device)}`;
  const sections: string[] = [];
  for (const [index, state] of states.entries()) {
    const section = yield* stateSection(state, index, index === states.length - 1 ? to : undefined);
    room.take(section.text.length);
    sections.push(section.text);
  }
  const ruleRows = yield* ruleTable(rules, names, room);
  const traffic = yield* trafficSection(document);
  const inForce = yield* inForceSection(document);
  const head = html`<head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta
      http-equiv="content-security-policy"
      content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    />
    <title>${title}</title>
    <style>
      ${new Html(style)}
    </style>
  </head> `;
  const body = html`<h1>${title}</h1>
    <p>
      Organization ${organization.name} <code>${organization.id}</code>, device <code>${device.id}</code>,
      ${to === undefined ? `at ${at}` : `from ${at} to ${to}`}. Made at ${created_at} by
      ${created_by.username ?? created_by.user_id}, Ringfence ${server_version}.
    </p>
    <p class="warn">
      A page can be copied and changed. Check the signature before you rely on it:
      <code>ringfence evidence verify FILE --key KEY</code>. Get the key from the organization by another way.
    </p>
    <h2>What this file cannot say</h2>
    <ul>
      ${not_known.map((sentence) => html`<li>${sentence}</li> `)}
    </ul>
    <h2>Who could connect</h2>
    ${new Html(sections.join(''))}
    <h2>Rules, and who wrote them</h2>
    ${ruleRows}
    <h2>In force</h2>
    ${inForce}
    <h2>Refused traffic</h2>
    ${traffic}
    <h2>Policy tests</h2>
    ${testSection(document)}`;
  yield;
  return yield* evidenceBody({ head: head.text, body: body.text }, document, (characters) => room.take(characters));
}
