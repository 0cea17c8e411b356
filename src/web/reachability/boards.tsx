/** Owns the two boards: labels for a large fleet, and the devices of one cell or of a small fleet. */
import { useDeferredValue, useMemo, useState, type ReactNode } from 'react';
import { BackIcon } from '../components/icons.tsx';
import {
  labelClusters,
  ReachTable,
  reach,
  type Cluster,
  type Endpoint,
  type Probe,
  type Reach,
} from '../model/reachability.ts';
import { keptTest, KeepThis } from '../policy-test/keep-this.tsx';
import { plural } from '../../client/words/number.ts';
import { probeWords } from './asked.tsx';
import { ClusterMatrix } from './cluster-matrix.tsx';
import { Matrix, type Pick } from './matrix.tsx';
import { SmallButton } from '../components/list.tsx';

/** A board of more is no longer read by anyone. */
const shownDevices = 40;
const shownClusters = 40;
const none: readonly Endpoint[] = [];

export interface Pair {
  readonly from: Endpoint;
  readonly to: Endpoint;
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
        rows={down}
        columns={across}
        answers={answers}
        picked={here.from < 0 || here.to < 0 ? undefined : here}
        pick={choose}
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
  const countIn = (isMeant: (endpoint: Endpoint) => boolean): readonly number[] =>
    clusters.map(({ members }) => inside(members).filter(isMeant).length);
  const inside = (members: Cluster['members']): readonly Endpoint[] =>
    members.flatMap((index) => endpoints[index] ?? []);
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
      <ClusterMatrix
        clusters={clusters}
        counts={counts}
        silent={countIn(({ shortcoming }) => shortcoming !== undefined)}
        isolated={countIn(({ device }) => device.isolated !== undefined)}
        pick={({ from, to }) => {
          const [one, other] = [clusters[from], clusters[to]];
          if (one !== undefined && other !== undefined) setOpened([one, other]);
        }}
      />
    </>
  );
}
