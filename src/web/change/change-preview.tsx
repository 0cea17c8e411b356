/** Owns the preview of a change, asked of the server before it is written and again whenever the organization changes: who gains and who loses what, where the present policy is in force, warnings, and tests that would fail. */
import { useMemo, useState, type ReactNode } from 'react';
import type { ChangeSetBody } from '../../api/change/change-set.ts';
import type { SimulatedTraffic, Simulation } from '../../api/change/simulation.ts';
import type { PolicyTestResult } from '../../api/policy-tests/policy-test.ts';
import { exactTraffic, notInForceNote, tooMuchNote, trafficLines, trafficSummary } from '../../client/words/traffic.ts';
import { Lines, Tag, SmallButton } from '../components/page.tsx';
import { sentence } from '../components/sentence.ts';
import { stateTitle, stateTones } from '../device/device-state.tsx';
import { isOpen } from '../model/device-policy.ts';
import { plural } from '../../client/words/number.ts';
import { FailingTests } from '../policy-test/test-results.tsx';
import { deviceName, useSnapshot, useLive } from '../state/organization.ts';
import { usePolicyTests } from '../state/policy-tests.ts';
import { useInfiniteQuery } from '@tanstack/react-query';
import { useAskedOnChange } from '../state/overview.ts';
import { useSession } from '../state/session.ts';

/** Lines before "Show all": a change to a large fleet may have thousands. */
const firstLines = 12;
/** Devices that a warning names. */
const mostNamed = 8;

function Access({ simulation }: { readonly simulation: Simulation }): ReactNode {
  const [isWhole, setWhole] = useState(false);
  const lines = useMemo(() => trafficLines(simulation), [simulation]);
  if (lines.length === 0) return null;
  const shown = isWhole ? lines : lines.slice(0, firstLines);
  return (
    <>
      <Lines lines={shown} />
      {shown.length < lines.length ? (
        <div>
          <SmallButton onClick={() => setWhole(true)}>Show all {plural(lines.length, 'line')}</SmallButton>
        </div>
      ) : null}
    </>
  );
}

type Signed = readonly ['gains' | 'loses', SimulatedTraffic];

function ExactRow({ entry: [verb, traffic] }: { readonly entry: Signed }): ReactNode {
  const { name, what, ports, ranges } = exactTraffic(traffic);
  const { in_force } = traffic.device;
  return (
    <tr>
      <td>
        <strong>{name}</strong> {verb}
        {in_force === undefined || in_force === 'yes' ? null : (
          <>
            {' '}
            <Tag tone={stateTones[in_force]}>{stateTitle(in_force)}</Tag>
          </>
        )}
      </td>
      <td>
        {traffic.direction} {what} <span className="mono">{ports}</span>
      </td>
      <td className="mono exact-ranges">{ranges}</td>
    </tr>
  );
}

const firstRows = 100;

/** Every range, for readers who want the sets and not the words. */
function Exact({ simulation: { gained, lost } }: { readonly simulation: Simulation }): ReactNode {
  const [most, setMost] = useState(firstRows);
  const entries: readonly Signed[] = [
    ...gained.map((traffic) => ['gains', traffic] as const),
    ...lost.map((traffic) => ['loses', traffic] as const),
  ];
  if (entries.length === 0) return null;
  return (
    <details className="disclosure">
      <summary>Exact addresses and ports</summary>
      <div className="table-scroll" tabIndex={0} role="region" aria-label="Exact addresses and ports">
        <table className="table small">
          <thead>
            <tr>
              <th scope="col">Device</th>
              <th scope="col">Traffic</th>
              <th scope="col">Far end</th>
            </tr>
          </thead>
          <tbody>
            {entries.slice(0, most).map((entry, index) => (
              // oxlint-disable-next-line react/no-array-index-key -- entries have no id and keep their order
              <ExactRow key={index} entry={entry} />
            ))}
          </tbody>
        </table>
      </div>
      {entries.length > most ? (
        <SmallButton onClick={() => setMost(entries.length)}>
          Show all {plural(entries.length, 'entry', 'entries')}
        </SmallButton>
      ) : null}
    </details>
  );
}

/** Whether the policy that the change is compared with is in force on the devices that it affects. */
function InForce({ simulation }: { readonly simulation: Simulation }): ReactNode {
  const { deviceById } = useSnapshot();
  if (simulation.affected === 0) return null;
  const note = notInForceNote(simulation, (id) => {
    const device = deviceById.get(id);
    return device === undefined ? undefined : deviceName(device);
  });
  const count = Object.values(simulation.in_force).filter((word) => word === 'yes').length;
  if (note !== undefined) return <p className="note note-warn">{note}</p>;
  return (
    <p className="small dimmed">
      The present policy is in force on {count === 1 ? 'the affected device' : `all ${count} affected devices`}, so the
      comparison is true there.
    </p>
  );
}

function Warning({ warning }: { readonly warning: Simulation['warnings'][number] }): ReactNode {
  const { deviceById, defaultGroup } = useSnapshot();
  const { code, detail, devices = [], more_devices = 0 } = warning;
  if (code === 'void_by_guardrail') return detail;
  const named = devices.slice(0, mostNamed).map((id) => {
    const device = deviceById.get(id);
    return device === undefined ? id : deviceName(device);
  });
  const more = devices.length - named.length + more_devices;
  const who = `${named.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
  const isOne = devices.length + more_devices === 1;
  if (code === 'group_in_use')
    return `${who} ${isOne ? 'uses' : 'use'} the group. It is taken off ${isOne ? 'it' : 'them'}.`;
  const effect =
    defaultGroup !== undefined && isOpen(defaultGroup.inbound_rules ?? [])
      ? 'will admit everything there'
      : 'will apply';
  return `${who} ${isOne ? 'is' : 'are'} left without a group of ${isOne ? 'its' : 'their'} own: the default group ${effect}.`;
}

function Tests({ tests }: { readonly tests: readonly PolicyTestResult[] }): ReactNode {
  const now = usePolicyTests(tests.some(({ state }) => state !== 'passing')).data;
  const before = new Map(now?.results.map(({ name, state }) => [name, state]));
  const failing = tests.filter(({ state }) => state === 'failing');
  const broken = failing.filter(({ name }) => before.get(name) !== 'failing');
  const already = failing.length - broken.length;
  const emptied = tests.filter(({ name, state }) => state === 'vacuous' && before.get(name) === 'passing');
  return (
    <>
      {broken.length === 0 ? null : (
        <FailingTests title={`${plural(broken.length, 'policy test')} would fail`} results={broken} />
      )}
      {already === 0 ? null : (
        <p className="note note-warn">
          {plural(already, 'policy test')} {already === 1 ? 'fails' : 'fail'} already and would still fail.
        </p>
      )}
      {emptied.length === 0 ? null : (
        <p className="note note-warn">
          No pair of devices would match {emptied.map(({ name }) => name).join(', ')} any more: nothing would be
          checked.
        </p>
      )}
      {tests.length > 0 && failing.length === 0 && emptied.length === 0 ? (
        <p className="small dimmed">No policy test would fail.</p>
      ) : null}
    </>
  );
}

/** The same for an answer that the caller asked for itself. */
export function SimulationView({ asked }: { readonly asked: AskedSimulation }): ReactNode {
  const { simulation, error, retry, loadMore, isLoadingMore } = asked;
  if (simulation === undefined)
    return error === null ? (
      <p className="dimmed" role="status">
        Working out who gains and who loses access…
      </p>
    ) : (
      <div className="note note-warn row between" role="alert">
        <span>What the change does to devices is not known: {sentence(error)}</span>
        <SmallButton onClick={retry}>Try again</SmallButton>
      </div>
    );
  const tooMuch = tooMuchNote(simulation);
  return (
    <section className="stack" aria-label="What the change does">
      <p>
        <strong>{trafficSummary(simulation)}</strong>
      </p>
      <Access simulation={simulation} />
      {tooMuch === undefined ? null : <p className="note note-warn">{tooMuch}</p>}
      {loadMore === undefined ? null : (
        <div className="row">
          <span className="small dimmed">
            This shows {simulation.devices.length} of {plural(simulation.affected, 'affected device')}.
          </span>
          <SmallButton loading={isLoadingMore} onClick={loadMore}>
            Show more devices
          </SmallButton>
        </div>
      )}
      {simulation.warnings.map((warning) => (
        <p key={`${warning.pointer} ${warning.detail}`} className="note note-warn">
          <Warning warning={warning} />
        </p>
      ))}
      <Tests tests={simulation.tests} />
      <InForce simulation={simulation} />
      <Exact simulation={simulation} />
    </section>
  );
}

/** Asks the server, and shows the answer. */
export function ChangePreview({ change }: { readonly change: ChangeSetBody }): ReactNode {
  return <SimulationView asked={useSimulation(change)} />;
}

/** Affected devices in one answer. */
const pageSize = 500;

interface AskedSimulation {
  /** What is known so far; `devices` may be fewer than `affected`. */
  readonly simulation: Simulation | undefined;
  readonly error: Error | null;
  readonly retry: () => void;
  /** Asks for further affected devices; undefined where there are none. */
  readonly loadMore: (() => void) | undefined;
  readonly isLoadingMore: boolean;
}

/** The pages as one answer: warnings and tests are about the whole change on each. */
const joined = (pages: readonly Simulation[]): Simulation | undefined => {
  const [first] = pages;
  const tooMuch = pages.flatMap(({ too_much }) => too_much ?? []);
  return (
    first && {
      ...first,
      devices: pages.flatMap(({ devices }) => devices),
      in_force: Object.assign({}, ...pages.map(({ in_force }) => in_force)) as Simulation['in_force'],
      gained: pages.flatMap(({ gained }) => gained),
      lost: pages.flatMap(({ lost }) => lost),
      ...(tooMuch.length > 0 && {
        too_much: {
          gained: tooMuch.reduce((sum, { gained }) => sum + gained, 0),
          lost: tooMuch.reduce((sum, { lost }) => sum + lost, 0),
        },
      }),
    }
  );
};

const question = 'simulation';

export function useSimulation(change: ChangeSetBody): AskedSimulation {
  const { client } = useSession();
  const { id } = useLive();
  useAskedOnChange(question);
  const query = useInfiniteQuery({
    queryKey: [question, id, JSON.stringify(change)],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) =>
      client.request('simulateChanges', {
        params: { org_id: id },
        body: change,
        query: { limit: pageSize, force: true, ...(pageParam !== undefined && { after: pageParam }) },
        signal,
      }),
    getNextPageParam: ({ next }) => next,
    staleTime: 0,
    gcTime: 0,
  });
  return {
    simulation: joined((query.data?.pages ?? []).map(({ value }) => value)),
    error: query.error,
    retry: () => void query.refetch(),
    loadMore: query.hasNextPage ? () => void query.fetchNextPage() : undefined,
    isLoadingMore: query.isFetchingNextPage,
  };
}

/** The devices that the change would leave with the default group, as far as the answer names them. */
export const openedIn = (simulation: Simulation | undefined): ReadonlySet<string> =>
  new Set<string>(
    (simulation?.warnings ?? []).flatMap(({ code, devices = [] }) => (code === 'would_open' ? devices : [])),
  );
