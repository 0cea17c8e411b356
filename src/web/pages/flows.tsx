/** Owns the page of flows: what devices refused and admitted, with the rule that decides, filtered and in pages. */
import { Button, SegmentedControl, Select, TextInput } from '@mantine/core';
import { useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { useMemo, type ReactNode } from 'react';
import { FlowIcon } from '../components/icons.tsx';
import { Empty, ListState } from '../components/placeholders.tsx';
import { clockTime, Page } from '../components/page.tsx';
import { useAllowThis } from '../flows/recently-refused.tsx';
import { deviceChoices, groupChoices, useFilter, FilterBar, type FilterColumn } from '../components/filter-bar.tsx';
import { FlowList } from '../flows/flow-list.tsx';
import { flowRows, farEndOf, flowQuery, isFiltered, timeOf, spans, type FlowSearch } from '../flows/flow-search.ts';
import { RecordButton } from '../flows/observe-setting.tsx';
import { grouped, plural } from '../../client/words/number.ts';
import { useDeviceNames, useOrganization, useRights, useSnapshot } from '../state/organization.ts';
import { useFlowCoverage, useFlows } from '../state/flows.ts';

const dayMs = 86_400_000;

const verdicts = [
  { value: 'refused', label: 'Refused' },
  { value: 'admitted', label: 'Admitted' },
  { value: 'all', label: 'Both' },
] as const;
type Verdict = (typeof verdicts)[number]['value'];

const icon = <FlowIcon size={40} />;

/** Why there is nothing to show, and what to do about it. */
function NoTraffic({
  search,
  showAll,
  reporting,
}: {
  readonly search: FlowSearch;
  readonly showAll: () => void;
  /** Devices that reported in the time of the filter; undefined while it is not known. */
  readonly reporting: number | undefined;
}): ReactNode {
  const names = useDeviceNames();
  const { devices } = useSnapshot();
  const { isOwner, me } = useRights();
  const observe = useOrganization()?.observe;
  const clear = (
    <Button variant="default" onClick={showAll}>
      Show all flows
    </Button>
  );
  if (search.far !== undefined && farEndOf(search.far, names) === undefined)
    return (
      <Empty icon={icon} title="No such far end" action={clear}>
        No device is called “{search.far}”, and it is no address and no range of addresses.
      </Empty>
    );
  if (!isOwner && !devices.some(({ user_id }) => user_id === me.id))
    return (
      <Empty icon={icon} title="You have no devices here">
        Members see the traffic of their own devices. Owners see all of it.
      </Empty>
    );
  if (observe === 'off' || observe === 'counters')
    return (
      <Empty icon={icon} title="Traffic is not recorded" action={<RecordButton observe="refused" />}>
        {observe === 'off' ? 'Agents record nothing.' : 'Agents only count packets.'} Once they record refused packets,
        this page shows who tried to reach whom, and which rule would have admitted it. Addresses and ports are
        recorded, never the content.
      </Empty>
    );
  if (search.verdict === 'admitted' && observe === 'refused')
    return (
      <Empty icon={icon} title="Admitted packets are not recorded" action={<RecordButton observe="all" />}>
        Agents record only what they refuse. With admitted packets too, you see who talks to whom and which rules are
        used. It costs each new connection a little time.
      </Empty>
    );
  if (isFiltered(search))
    return (
      <Empty icon={icon} title="No flow matches" action={clear}>
        {reporting === undefined || reporting > 0
          ? 'Nothing that was recorded has all of this.'
          : 'No device reported traffic in this time.'}
      </Empty>
    );
  if (reporting === 0)
    return (
      <Empty icon={icon} title="No device has reported traffic yet">
        Agents report once a minute, after they have learned the setting. An older agent does not record traffic.
      </Empty>
    );
  return (
    <Empty icon={icon} title={search.verdict === 'admitted' ? 'Nothing was admitted' : 'Nothing was refused'}>
      {reporting === undefined
        ? ''
        : `${plural(reporting, 'device')} reported since yesterday${search.verdict === 'admitted' ? '.' : ', and a rule admitted every connection.'}`}
    </Empty>
  );
}

export function FlowsPage(): ReactNode {
  const { org } = useParams({ from: '/o/$org/flows' });
  const search = useSearch({ from: '/o/$org/flows' });
  const navigate = useNavigate({ from: '/o/$org/flows' });
  const { isOwner } = useRights();
  const names = useDeviceNames();
  const query = useFlows((now) => flowQuery(search, names, now), JSON.stringify(search));
  const { data, error, isPending, isLooking, hasNextPage, isFetchingNextPage, fetchNextPage } = query;
  const sums = useMemo(() => data?.pages.flatMap(({ value }) => value) ?? [], [data]);
  const rows = useMemo(() => flowRows(sums), [sums]);
  // Spans of time move on; the days that they begin on hardly do.
  const since = search.since === undefined ? Date.now() - dayMs : timeOf(search.since, Date.now());
  const coverage = useFlowCoverage(since, search.device);
  const observe = useOrganization()?.observe;
  const filter = useFilter();
  const allow = useAllowThis();
  const showAll = (): void =>
    void navigate({ search: ({ verdict }) => ({ ...(verdict !== undefined && { verdict }) }), replace: true });
  const oldest = sums.at(-1)?.since;
  const isKnown = flowQuery(search, names, 0) !== undefined;
  return (
    <Page
      key={org}
      title="Flows"
      about={
        isOwner
          ? 'What devices refused and admitted: the first packet of each connection.'
          : 'What your devices refused and admitted. Only owners see the traffic of other devices.'
      }
    >
      {allow.dialog}
      <FlowFilters search={search} filter={filter} />
      <div>
        <SegmentedControl
          aria-label="Verdict"
          value={search.verdict ?? 'refused'}
          onChange={(verdict: Verdict) => filter({ verdict: verdict === 'refused' ? undefined : verdict })}
          data={[...verdicts]}
        />
      </div>
      <section className="card" aria-label="Flows">
        {isKnown && (isPending || error !== null || isLooking) ? (
          <ListState query={{ ...query, data: isLooking ? undefined : data }} loading="Looking through the flows…" />
        ) : rows.length > 0 ? (
          <FlowList rows={rows} label="Flows" allow={allow.act} />
        ) : hasNextPage ? (
          <Empty icon={icon} title="Nothing in what was looked at so far">
            There is older traffic. Look further back below.
          </Empty>
        ) : (
          <NoTraffic search={search} showAll={showAll} reporting={coverage?.devices} />
        )}
        {data === undefined || (rows.length === 0 && !hasNextPage) ? null : (
          <div className="card-body row between">
            <span className="small dimmed" role="status">
              {plural(rows.length, 'flow')}
              {oldest === undefined ? '' : `, back to ${clockTime(Date.parse(oldest), Date.now())}`}
              {hasNextPage ? ', and there is more' : ''}
            </span>
            {hasNextPage ? (
              <Button variant="default" loading={isFetchingNextPage} onClick={() => void fetchNextPage()}>
                Look further back
              </Button>
            ) : null}
          </div>
        )}
      </section>
      {coverage === undefined || observe === 'off' || observe === 'counters' ? null : (
        <p className={coverage.not_recorded > 0 ? 'note note-warn' : 'small dimmed'}>
          {plural(coverage.devices, 'device')} reported since {clockTime(Date.parse(coverage.since), Date.now())}.{' '}
          {grouped(coverage.not_recorded)} {coverage.not_recorded === 1 ? 'packet was' : 'packets were'} not recorded
          {coverage.not_recorded > 0
            ? ', because a device met more different traffic in a minute than it records. They were judged by the rules as always.'
            : '.'}
        </p>
      )}
    </Page>
  );
}

const directions = [
  { value: 'in', label: 'Inbound: to the device' },
  { value: 'out', label: 'Outbound: from the device' },
];
const protocols = [
  { value: 'tcp', label: 'TCP' },
  { value: 'udp', label: 'UDP' },
  { value: 'icmp', label: 'Ping (IPv4)' },
  { value: 'icmpv6', label: 'Ping (IPv6)' },
];

function TimeField({
  label,
  value,
  onChange,
}: {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string | undefined) => void;
}): ReactNode {
  return (
    <TextInput
      className="filter-time"
      type="datetime-local"
      aria-label={label}
      leftSection={<span className="small">{label}</span>}
      leftSectionWidth={54}
      value={value}
      onChange={(event) => onChange(event.currentTarget.value || undefined)}
    />
  );
}

function FlowFilters({
  search: { verdict: _verdict, ...values },
  filter,
}: {
  readonly search: FlowSearch;
  readonly filter: (next: { readonly [name: string]: string | undefined }) => void;
}): ReactNode {
  const { devices, groups } = useSnapshot();
  const { isOwner, me } = useRights();
  const names = useDeviceNames();
  const { far, port = '', since = '', until = '' } = values;
  const readable = isOwner ? devices : devices.filter(({ user_id }) => user_id === me.id);
  const columns: readonly FilterColumn[] = [
    { name: 'far', title: 'Far end', words: names.nameOf, field: null },
    { name: 'device', title: 'Device', placeholder: 'Every device', choices: deviceChoices(readable) },
    { name: 'group', title: 'Group', placeholder: 'Every group', choices: groupChoices(groups) },
    { name: 'direction', title: 'Direction', placeholder: 'Both directions', choices: directions },
    { name: 'protocol', title: 'Protocol', placeholder: 'Every protocol', choices: protocols },
    {
      name: 'port',
      title: 'Port',
      field: (
        <TextInput
          aria-label="Filter by port"
          placeholder="Any port"
          inputMode="numeric"
          maxLength={5}
          value={port}
          onChange={(event) => {
            const next = event.currentTarget.value.replaceAll(/\D/g, '');
            filter({ port: next === '' || Number(next) > 65_535 ? undefined : next });
          }}
        />
      ),
    },
    {
      name: 'since',
      title: 'Since',
      choices: spans,
      words: (value) => spans.find((span) => span.value === value)?.label ?? value.replace('T', ' '),
      field: (
        <>
          <Select
            aria-label="Filter by time"
            placeholder="Any time"
            clearable
            data={[...spans]}
            value={since.includes('T') ? null : since}
            onChange={(next) => filter({ since: next ?? undefined })}
            clearButtonProps={{ 'aria-label': 'Any time' }}
          />
          <TimeField
            label="Since"
            value={since.includes('T') ? since : ''}
            onChange={(next) => filter({ since: next })}
          />
        </>
      ),
    },
    {
      name: 'until',
      title: 'Until',
      words: (value) => value.replace('T', ' '),
      field: <TimeField label="Until" value={until} onChange={(next) => filter({ until: next })} />,
    },
  ];
  return (
    <FilterBar
      label="Flows"
      search={{
        name: 'far',
        title: 'Far end',
        placeholder: 'Device, address or range',
        text: far === undefined ? undefined : names.nameOf(far),
      }}
      columns={columns}
      values={values}
      filter={filter}
      clear="Show all flows"
    />
  );
}
