/**
 * Owns the reachability page: which devices may connect on which port, by the same decision that the agents' rules are
 * tested against.
 */
import { SegmentedControl, TextInput } from '@mantine/core';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { useDeferredValue, useMemo, useState, type ReactNode } from 'react';
import { ReachIcon, SearchIcon } from '../components/icons.tsx';
import { RingfenceError } from '../../client/error.ts';
import { Loading, Card, Page, PageTitle } from '../components/page.tsx';
import { Empty, Failed } from '../components/placeholders.tsx';
import { reach, type Probe } from '../model/reachability.ts';
import {
  DeviceChoice,
  probeWords,
  readProbe,
  ServiceChoice,
  useEndpoints,
  PastChoice,
  readPastMoment,
  usePastOrganization,
} from '../reachability/asked.tsx';
import { DeviceBoard, LabelBoard, type Pair } from '../reachability/boards.tsx';
import { Explanation } from '../reachability/explanation.tsx';
import { deviceName, PastContext, usePast, useSnapshot } from '../state/organization.ts';

type View = 'matrix' | 'label';
/** From so many devices on, labels say more than a matrix of devices. */
const labelsFrom = 20;

function Why({ pair, probe }: { readonly pair: Pair | undefined; readonly probe: Probe }) {
  if (pair === undefined) {
    return (
      <Card title="Why?" label="Why">
        <p className="card-body dimmed">
          Choose two devices above, or a cell, to read which rule of which group decides.
        </p>
      </Card>
    );
  }
  const answer = reach(pair.from, pair.to, probe);
  return <Explanation from={pair.from} to={pair.to} answer={answer} what={probeWords(probe)} probe={probe} />;
}

/** The present, or the organization as it was at the time in the page's address. */
export function ReachPage(): ReactNode {
  const { at } = useSearch({ from: '/o/$org/reach' });
  const moment = readPastMoment(at);
  const past = usePastOrganization(moment);
  if (moment === undefined) return <Reachability />;
  if (past.data !== undefined) {
    return (
      <PastContext value={past.data}>
        <Reachability key={moment} />
      </PastContext>
    );
  }
  return <Unseen at={at} error={past.error} retry={() => void past.refetch()} />;
}

/** While the past is read, or where it cannot be had, another time can be chosen. */
function Unseen({
  at,
  error,
  retry,
}: {
  readonly at: string | undefined;
  readonly error: unknown;
  readonly retry: () => void;
}): ReactNode {
  const navigate = useNavigate({ from: '/o/$org/reach' });
  const change = (text: string | undefined): void =>
    void navigate({ search: ({ at: _at, ...rest }) => ({ ...rest, ...(text && { at: text }) }), replace: true });
  const isGone = error instanceof RingfenceError && error.code === 'revision_gone';
  return (
    <div className="page">
      <div className="page-head">
        <PageTitle>Reachability</PageTitle>
        <div className="row">
          <PastChoice value={at} onChange={change} />
        </div>
      </div>
      <div className="card">
        {isGone ? (
          <Empty icon={<ReachIcon size={40} />} title="The history does not reach back that far">
            Choose a later time.
          </Empty>
        ) : error === null ? (
          <Loading what="the past" />
        ) : (
          <Failed error={error} retry={retry} />
        )}
      </div>
    </div>
  );
}

function Reachability(): ReactNode {
  const past = usePast();
  const asked = useSearch({ from: '/o/$org/reach' });
  const navigate = useNavigate({ from: '/o/$org/reach' });
  const { devices } = useSnapshot();
  const [text, setText] = useState('');
  const [chosen, setView] = useState<View>();
  const hasLabels = useMemo(() => devices.some(({ labels = [] }) => labels.length > 0), [devices]);
  const view: View = hasLabels ? (chosen ?? (devices.length >= labelsFrom ? 'label' : 'matrix')) : 'matrix';
  const wanted = useDeferredValue(text).trim().toLowerCase();
  const endpoints = useEndpoints(devices);
  const { kind, port } = readProbe(asked.port);
  const probe = useMemo((): Probe => ({ kind, port }), [kind, port]);
  const found = useMemo(
    () =>
      wanted === ''
        ? endpoints
        : endpoints.filter(({ device }) =>
            `${deviceName(device)} ${device.tunnel_ip} ${(device.labels ?? []).join(' ')}`
              .toLowerCase()
              .includes(wanted),
          ),
    [endpoints, wanted],
  );
  const change = (more: { readonly [Field in keyof typeof asked]?: string | undefined }): void => {
    const fields = Object.entries({ ...asked, ...more }).filter(([, value]) => value !== undefined);
    void navigate({ search: Object.fromEntries(fields), replace: true });
  };
  const end = (id: string | undefined) => endpoints.find(({ device }) => device.id === id);
  const [from, to] = [end(asked.from), end(asked.to)];
  const pair = from === undefined || to === undefined ? undefined : { from, to };
  const pick = (one: Pair): void => change({ from: one.from.device.id, to: one.to.device.id });
  const shared = { probe, pick, picked: pair };
  return (
    <Page
      title="Reachability"
      about="Who may open a connection to whom, between tunnel addresses. Both ends must agree: outbound there, inbound here."
      actions={
        <SegmentedControl
          aria-label="View"
          value={view}
          onChange={setView}
          data={[
            { value: 'label', label: 'By label', disabled: !hasLabels },
            { value: 'matrix', label: 'By device' },
          ]}
        />
      }
    >
      {past === undefined ? null : (
        <p className="note note-plain" role="status">
          This is the policy as it was at {new Date(past.at).toLocaleString()}. Whether the devices enforced it then is
          not known.
        </p>
      )}
      <div className="row">
        <DeviceChoice label="From" value={asked.from} onChange={(id) => change({ from: id })} />
        <DeviceChoice label="To" value={asked.to} onChange={(id) => change({ to: id })} />
        <ServiceChoice probe={probe} onChange={(next) => change({ port: next })} />
        <PastChoice value={asked.at} onChange={(at) => change({ at })} />
        <TextInput
          className="grow"
          miw={200}
          aria-label="Search devices"
          placeholder="Only devices with this name or label"
          leftSection={<SearchIcon size={16} />}
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
        />
      </div>
      {found.length === 0 ? (
        <div className="card">
          <Empty icon={<ReachIcon size={40} />} title="No devices to compare">
            {devices.length === 0 ? 'Add devices first.' : 'No device matches the search.'}
          </Empty>
        </div>
      ) : (
        <div className="columns">
          <section className="card" aria-label="Who may reach whom">
            {view === 'label' ? (
              <LabelBoard endpoints={found} {...shared} />
            ) : (
              <DeviceBoard rows={found} columns={found} {...shared} />
            )}
          </section>
          <Why pair={pair} probe={probe} />
        </div>
      )}
    </Page>
  );
}
