/** Owns the two boards: labels for a large fleet, and the devices of one cell or of a small fleet. */
import { useDeferredValue, useMemo, useState, type ReactNode } from 'react';
import { BackIcon } from '../components/icons.tsx';
import {
  labelClusters,
  ReachTable,
  reach,
  type Cluster,
  type Endpoint,
  type PairCount,
  type Probe,
  type Reach,
} from '../model/reachability.ts';
import { keptTest, KeepThis } from '../policy-test/keep-this.tsx';
import { grouped, plural } from '../../client/words/number.ts';
import { probeWords } from './asked.tsx';
import { Matrix, type Cell, type Head, type Pick } from './matrix.tsx';
import { deviceName } from '../state/organization.ts';
import { SmallButton } from '../components/page.tsx';

/** A board of more is no longer read by anyone. */
const shownDevices = 40;
const shownClusters = 40;
const none: readonly Endpoint[] = [];

export interface Pair {
  readonly from: Endpoint;
  readonly to: Endpoint;
}

/** Isolation comes before everything else. */
const deviceHead = ({ device, shortcoming }: Endpoint): Head => ({
  key: device.id,
  name: (
    <>
      {deviceName(device)}
      {device.isolated === undefined ? null : <strong className="isolated-mark"> isolated</strong>}
    </>
  ),
  title: device.isolated === undefined ? shortcoming : `Isolated: ${device.isolated.reason}`,
  isSilent: shortcoming !== undefined,
});

const answerWords = {
  yes: ['✓', 'may connect'],
  no: ['×', 'may not connect'],
  unknown: ['?', 'unknown'],
  self: ['', 'itself'],
} as const;

function deviceCell(from: Endpoint | undefined, to: Endpoint | undefined, answer: Reach | undefined): Cell {
  const kind = answer?.kind ?? 'unknown';
  const doubt = kind === 'self' ? undefined : (from?.shortcoming ?? to?.shortcoming);
  const [sign, words] = answerWords[kind];
  const ends = [from, to].map((end) => (end === undefined ? '' : deviceName(end.device))).join(' to ');
  return {
    kind,
    sign,
    label: `${ends}: ${words}${doubt === undefined ? '' : `, not in force: ${doubt}`}`,
    title: doubt === undefined ? undefined : `not in force: ${doubt}`,
    isDoubtful: doubt !== undefined,
  };
}

function clusterHead({ key, name, members }: Cluster, ends: readonly Endpoint[]): Head {
  const cut = ends.filter(({ device }) => device.isolated !== undefined).length;
  const away = ends.filter(({ shortcoming }) => shortcoming !== undefined).length;
  const isolated = cut === 0 ? '' : `, ${grouped(cut)} isolated`;
  return {
    key,
    name: (
      <>
        {name}{' '}
        <span className="dimmed">
          {grouped(members.length)}
          {isolated}
        </span>
      </>
    ),
    title: `${plural(members.length, 'device')}${isolated}${away === 0 ? '' : `, ${grouped(away)} not in force`}`,
    isSilent: away > 0,
  };
}

/** How many pairs of the devices of two labels may connect. */
function clusterCell(
  from: Cluster | undefined,
  to: Cluster | undefined,
  count: PairCount | undefined,
  heads: readonly Head[],
): Cell {
  const { yes, unknown, total } = count ?? { yes: 0, unknown: 0, total: 0 };
  const isSilent = ({ key }: Cluster): boolean => heads.some((head) => head.key === key && head.isSilent);
  const share = `${Math.max(1, Math.min(99, Math.round((yes / total) * 100)))}%`;
  const sign = total === 0 ? '' : yes === 0 ? '×' : yes === total ? '✓' : share;
  const words = `${from?.name} to ${to?.name}: ${grouped(yes)} of ${grouped(total)} pairs may connect`;
  const rest = unknown === total ? 'unknown' : 'no';
  return {
    kind: total === 0 ? 'self' : yes === total ? 'yes' : yes > 0 ? 'some' : rest,
    sign,
    label: `${sign} ${words}`.trim(),
    title: words,
    isDoubtful: yes > 0 && [from, to].some((one) => one !== undefined && isSilent(one)),
  };
}

export function DeviceBoard({
  rows,
  columns,
  probe,
  pick,
  picked,
}: {
  readonly rows: readonly Endpoint[];
  readonly columns: readonly Endpoint[];
  readonly probe: Probe;
  readonly pick: (pair: Pair) => void;
  readonly picked: Pair | undefined;
}): ReactNode {
  // A board of forty is 1,600 cells: drawn after the page around it, and piece by piece.
  const isDrawn = useDeferredValue(true, false);
  const down = useMemo(() => (isDrawn ? rows.slice(0, shownDevices) : none), [isDrawn, rows]);
  const across = useMemo(() => (isDrawn ? columns.slice(0, shownDevices) : none), [isDrawn, columns]);
  const answers = useMemo(
    (): readonly (readonly Reach[])[] => down.map((from) => across.map((to) => reach(from, to, probe))),
    [down, across, probe],
  );
  const allowed = answers.flat().filter(({ kind }) => kind === 'yes').length;
  const choose = ({ from, to }: Pick): void => {
    const [one, other] = [down[from], across[to]];
    if (one !== undefined && other !== undefined) pick({ from: one, to: other });
  };
  const at = (list: readonly Endpoint[], one: Endpoint | undefined): number =>
    list.findIndex(({ device }) => device.id === one?.device.id);
  const here = { from: at(down, picked?.from), to: at(across, picked?.to) };
  const isCut = rows.length > shownDevices || columns.length > shownDevices;
  return (
    <>
      <div className="card-head">
        <h2>{probeWords(probe)}</h2>
        <span className="small dimmed">
          {isCut
            ? `showing ${shownDevices} of ${plural(Math.max(rows.length, columns.length), 'device')}; search to see others`
            : `${plural(allowed, 'connection')} allowed`}
        </span>
      </div>
      <Matrix
        caption="Rows connect to columns. Move with the arrow keys."
        rows={down.map(deviceHead)}
        columns={across.map(deviceHead)}
        cellOf={(one, other) => deviceCell(down[one], across[other], answers[one]?.[other])}
        picked={here.from < 0 || here.to < 0 ? undefined : here}
        pick={choose}
        walk={choose}
      />
    </>
  );
}

/** A cell whose pairs all agree can be kept as it is. */
function KeepCell({
  from,
  to,
  endpoints,
  probe,
}: {
  readonly from: Cluster;
  readonly to: Cluster;
  readonly endpoints: readonly Endpoint[];
  readonly probe: Probe;
}): ReactNode {
  const { yes, unknown, total } = useMemo(
    () => new ReachTable(endpoints, probe).count(from, to),
    [endpoints, probe, from, to],
  );
  if (from.key === '' || to.key === '' || total === 0 || unknown > 0 || (yes > 0 && yes < total)) return null;
  const pair = { from: { labels: [from.key] }, to: { labels: [to.key] }, isAllowed: yes > 0 };
  return <KeepThis test={keptTest({ ...pair, names: [from.name, to.name] }, probe)} />;
}

export function LabelBoard({
  endpoints,
  probe,
  pick,
  picked,
}: {
  readonly endpoints: readonly Endpoint[];
  readonly probe: Probe;
  readonly pick: (pair: Pair) => void;
  readonly picked: Pair | undefined;
}): ReactNode {
  const isDrawn = useDeferredValue(true, false);
  const [opened, setOpened] = useState<readonly [Cluster, Cluster]>();
  const all = useMemo(() => labelClusters(endpoints.map(({ device }) => device)), [endpoints]);
  const clusters = all.slice(0, shownClusters);
  const counts = useMemo(() => {
    if (!isDrawn) return [];
    const table = new ReachTable(endpoints, probe);
    return all.slice(0, shownClusters).map((from, _, rows) => rows.map((to) => table.count(from, to)));
  }, [isDrawn, endpoints, probe, all]);
  const inside = (members: Cluster['members']): readonly Endpoint[] =>
    members.flatMap((index) => endpoints[index] ?? []);
  const heads = clusters.map((cluster) => clusterHead(cluster, inside(cluster.members)));
  if (opened !== undefined) {
    const [from, to] = opened;
    return (
      <>
        <div className="card-body row">
          <SmallButton leftSection={<BackIcon size={16} />} onClick={() => setOpened(undefined)}>
            All labels
          </SmallButton>
          <span>
            <strong>{from.name}</strong> → <strong>{to.name}</strong>
          </span>
          <KeepCell from={from} to={to} endpoints={endpoints} probe={probe} />
        </div>
        <DeviceBoard
          rows={inside(from.members)}
          columns={inside(to.members)}
          probe={probe}
          pick={pick}
          picked={picked}
        />
      </>
    );
  }
  return (
    <>
      <div className="card-head">
        <h2>{probeWords(probe)}</h2>
        <span className="small dimmed">
          {all.length > shownClusters
            ? `showing the ${shownClusters} largest of ${all.length}`
            : 'Share of pairs that may connect. A cell opens to its devices.'}
        </span>
      </div>
      <Matrix
        caption="Rows connect to columns. A cell opens to its devices."
        rows={heads}
        columns={heads}
        cellOf={(one, other) => clusterCell(clusters[one], clusters[other], counts[one]?.[other], heads)}
        pick={({ from, to }) => {
          const [one, other] = [clusters[from], clusters[to]];
          if (one !== undefined && other !== undefined) setOpened([one, other]);
        }}
        isWide
      />
    </>
  );
}
