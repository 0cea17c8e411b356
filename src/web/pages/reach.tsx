/** Owns the reachability page: who may reach whom on what, from the same decision that the agents' rules are tested against. */
import { NumberInput, SegmentedControl, Select, TextInput } from '@mantine/core';
import { useParams } from '@tanstack/react-router';
import { useDeferredValue, useMemo, useState, type ReactNode } from 'react';
import { services } from '../../policy/services.ts';
import { ReachIcon, SearchIcon } from '../components/icons.tsx';
import { policyOf } from '../model/device-policy.ts';
import { addressOf, reach, type Probe, type Endpoint } from '../model/reachability.ts';
import { plural } from '../model/rule-text.ts';
import { Graph } from '../reachability/graph.tsx';
import { Matrix, type Pick } from '../reachability/matrix.tsx';
import { Empty } from '../components/placeholders.tsx';
import { Explanation } from '../reachability/explanation.tsx';
import { ago } from '../components/time.tsx';
import { shortcomingOf } from '../model/device-state.ts';
import { deviceName } from '../state/live.ts';
import { useFleet } from '../state/fleet.ts';
import { useSnapshot, useStatuses } from '../state/organization.ts';

const none: readonly Endpoint[] = [];

/** A board of more is no longer read by anyone; search narrows it. */
const shownDevices = 40;
const graphDevices = 16;

const known = services
  .filter(({ ip_protocol }) => ip_protocol === 'tcp' || ip_protocol === 'udp')
  .map(({ name, ip_protocol, port }) => ({
    value: `${ip_protocol} ${port}`,
    label: `${name} (${ip_protocol} ${port})`,
  }));
const choices = [...known, { value: 'ping 0', label: 'Ping' }, { value: 'custom', label: 'Another port …' }];

function readProbe(choice: string, custom: Probe): Probe {
  if (choice === 'custom') return custom;
  const [kind, port] = choice.split(' ');
  return { kind: kind === 'udp' || kind === 'ping' ? kind : 'tcp', port: Number(port) };
}

export function ReachPage(): ReactNode {
  const { org } = useParams({ from: '/o/$org/reach' });
  const snapshot = useSnapshot();
  const [choice, setChoice] = useState('tcp 22');
  const [custom, setCustom] = useState<Probe>({ kind: 'tcp', port: 8080 });
  const [text, setText] = useState('');
  const [picked, setPicked] = useState<Pick>();
  const [view, setView] = useState('matrix');
  const wanted = useDeferredValue(text).trim().toLowerCase();
  const asked = readProbe(choice, custom);
  const found = useMemo(
    () =>
      snapshot.devices.filter((device) => `${deviceName(device)} ${device.tunnel_ip}`.toLowerCase().includes(wanted)),
    [snapshot.devices, wanted],
  );
  const { groups, groupById, defaultGroup } = snapshot;
  const fleet = useFleet();
  const statuses = useStatuses();
  const current = useMemo(
    (): readonly Endpoint[] =>
      found.slice(0, shownDevices).map((device) => ({
        device,
        policy: policyOf(device, { groups, groupById, defaultGroup }, fleet),
        address: addressOf(device),
        shortcoming: shortcomingOf(deviceName(device), statuses.get(device.id), (time) =>
          ago(Date.parse(time), Date.now()),
        ),
      })),
    [found, groups, groupById, defaultGroup, fleet, statuses],
  );
  // A board of forty is 1,600 cells: drawn after the page around it, and piece by piece.
  const isDrawn = useDeferredValue(true, false);
  const endpoints = isDrawn ? current : none;
  const answers = useMemo(
    () => endpoints.map((from) => endpoints.map((to) => reach(from, to, { kind: asked.kind, port: asked.port }))),
    [endpoints, asked.kind, asked.port],
  );
  const what = asked.kind === 'ping' ? 'Ping' : `${asked.kind.toUpperCase()} port ${asked.port}`;
  const [from, to] = picked === undefined ? [] : [endpoints[picked.from], endpoints[picked.to]];
  const answer = picked === undefined ? undefined : answers[picked.from]?.[picked.to];
  const allowed = answers.flat().filter(({ kind }) => kind === 'yes').length;
  const graphFits = endpoints.length <= graphDevices;

  return (
    <div className="page">
      <div className="page-head">
        <div>
          <h1>Reachability</h1>
          <p className="dimmed">
            Who may open a connection to whom. Both ends must agree: outbound there, inbound here.
          </p>
        </div>
        <SegmentedControl
          aria-label="View"
          value={graphFits ? view : 'matrix'}
          onChange={setView}
          data={[
            { value: 'matrix', label: 'Matrix' },
            { value: 'graph', label: 'Graph', disabled: !graphFits },
          ]}
        />
      </div>
      <div className="row">
        <Select
          className="filter"
          aria-label="Service"
          data={choices}
          value={choice}
          onChange={(next) => setChoice(next ?? 'tcp 22')}
          allowDeselect={false}
          searchable
        />
        {choice === 'custom' ? (
          <>
            <SegmentedControl
              aria-label="Protocol"
              value={custom.kind}
              onChange={(kind) => setCustom({ ...custom, kind: kind === 'udp' ? 'udp' : 'tcp' })}
              data={[
                { value: 'tcp', label: 'TCP' },
                { value: 'udp', label: 'UDP' },
              ]}
            />
            <NumberInput
              aria-label="Port"
              w={110}
              min={1}
              max={65_535}
              allowDecimal={false}
              value={custom.port}
              onChange={(port) => setCustom({ ...custom, port: Number(port) || 1 })}
            />
          </>
        ) : null}
        <TextInput
          className="grow"
          miw={200}
          aria-label="Search devices"
          placeholder="Only devices with this in their name or address"
          leftSection={<SearchIcon size={16} />}
          value={text}
          onChange={(event) => {
            setText(event.currentTarget.value);
            setPicked(undefined);
          }}
        />
      </div>
      {found.length > shownDevices ? (
        <p className="note note-plain">
          Showing {shownDevices} of {plural(found.length, 'device')}. Search to see others.
        </p>
      ) : null}
      {current.length === 0 ? (
        <div className="card">
          <Empty icon={<ReachIcon size={40} />} title="No devices to compare">
            {snapshot.devices.length === 0 ? 'Add devices first.' : 'No device matches the search.'}
          </Empty>
        </div>
      ) : (
        <div className="columns">
          <section className="card" aria-label="Who may reach whom">
            <div className="card-head">
              <h2>{what}</h2>
              <span className="small dimmed">{plural(allowed, 'connection')} allowed</span>
            </div>
            {view === 'graph' && graphFits ? (
              <Graph endpoints={endpoints} answers={answers} what={what} />
            ) : (
              <Matrix endpoints={endpoints} answers={answers} picked={picked} pick={setPicked} />
            )}
          </section>
          {from !== undefined && to !== undefined && answer !== undefined ? (
            <Explanation from={from} to={to} answer={answer} what={what} org={org} />
          ) : (
            <section className="card" aria-label="Why">
              <div className="card-head">
                <h2>Why?</h2>
              </div>
              <p className="card-body dimmed">
                {view === 'graph' && graphFits ? 'In the matrix, choose' : 'Choose'} a cell to read which rule of which
                group decides.
              </p>
            </section>
          )}
        </div>
      )}
    </div>
  );
}
