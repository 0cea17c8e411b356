/** Owns the guided way from an open device to enforced rules, on its page: each step with its state and its action, and the proposed rules with their evidence. */
import { Button, SegmentedControl, TextInput } from '@mantine/core';
import { useMemo, useState, type ReactNode } from 'react';
import type { Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { coverageWords, wouldWords } from '../../client/words/observation.ts';
import {
  coveredWords,
  observedWords,
  checkWords,
  emptyDirectionWords,
  leftOutWords,
  notCoveredWords,
  proposalCoverage,
  seenWords,
} from '../../client/words/proposal.ts';
import { sentence } from '../components/sentence.ts';
import { Step, clockTime, Ago } from '../components/page.tsx';
import { useGroupObservation } from '../flows/group-observation.tsx';
import { RecordButton } from '../flows/observe-setting.tsx';
import { ModeButton } from '../group/group-mode.tsx';
import { ruleText } from '../model/rule-text.ts';
import { plural } from '../../client/words/number.ts';
import {
  useLive,
  useOrganization,
  useRights,
  useSnapshot,
  useDeviceNames,
  deviceName,
  type Snapshot,
} from '../state/organization.ts';
import { scopeWords } from '../trial/trial-words.ts';
import { groupsOf, devicesNamed } from '../../organization/of-records.ts';
import { isOpenGroup, type GroupOn } from '../model/device-policy.ts';
import { useQuery, type UseQueryResult } from '@tanstack/react-query';
import type { Proposal, ProposedRule } from '../../api/usage/proposal.ts';
import { useSession } from '../state/session.ts';
import { limits } from '../../api/limits.ts';
import { FormDialog } from '../components/dialog.tsx';
import { ListState } from '../components/placeholders.tsx';
import { RadioList } from '../components/radio-list.tsx';
import { notify, writeOrAsk, useWrite } from '../state/write.tsx';
import { labelChip } from '../model/far-end.ts';
import { freeName } from '../policy-test/test-draft.ts';
import { GroupLink } from '../components/record-link.tsx';

/** Days after which most of the usual traffic was seen. */
const usualDays = 7;

/** The first two steps, while there is no group yet. */
function Begin({ device }: { readonly device: Device }): ReactNode {
  const observe = useOrganization()?.observe;
  const isRecorded = observe === 'all';
  const query = useProposal({ device_ids: [device.id] }, usualDays, isRecorded);
  const [isOpen, setOpen] = useState(false);
  const { data, error } = query;
  const isObserved = data !== undefined && isAnything(data);
  const isShort = isObserved && data.device_days * data.observed < usualDays - 0.5;
  return (
    <>
      <Step
        title="Observe"
        state={isObserved ? 'done' : 'now'}
        action={observe === undefined || isRecorded ? undefined : <RecordButton observe="all" />}
      >
        {observe === undefined || (isRecorded && data === undefined && error === null) ? (
          'Looking at the traffic…'
        ) : !isRecorded ? (
          'Agents do not record admitted traffic. They record addresses and ports of first packets, never content.'
        ) : error !== null ? (
          <span className="fault" role="alert">
            {sentence(error)}{' '}
            <button type="button" className="link" onClick={() => void query.refetch()}>
              Try again
            </button>
          </span>
        ) : !isObserved ? (
          'Agents record, and this device has not reported any traffic yet. Agents report once a minute.'
        ) : (
          <>
            {data.observed > 0 ? observedWords(data) : 'Agents have reported the first traffic.'}
            {isShort ? ' A week shows most of the usual traffic.' : ''}
          </>
        )}
      </Step>
      <Step
        title="Propose rules"
        state={isObserved ? 'now' : 'later'}
        action={
          isObserved ? (
            <Button variant={isShort ? 'default' : 'filled'} onClick={() => setOpen(true)}>
              Propose rules…
            </Button>
          ) : undefined
        }
      >
        {!isObserved
          ? 'From the observed traffic you get rules with their evidence.'
          : data.rules.length === 0
            ? coveredWords(data)
            : `${plural(data.rules.length, 'rule')} would admit the observed traffic.`}
        {isOpen ? <ProposalDialog device={device} close={() => setOpen(false)} /> : null}
      </Step>
      <Step title="Watch only" state="later">
        The rules become a group that decides nothing yet. You see what it would have refused.
      </Step>
      <Step title="Try it" state="later">
        The rules are in force, and every device takes them back by itself unless you keep them.
      </Step>
    </>
  );
}

/** What the watch-only group would have done so far. */
function Watched({ group }: { readonly group: SecurityGroup }): ReactNode {
  const query = useGroupObservation(group);
  const { data, error } = query;
  if (error !== null)
    return (
      <span className="fault" role="alert">
        {sentence(error)}
      </span>
    );
  if (data === undefined) return 'Comparing the traffic…';
  return (
    <>
      {data.observed > 0 ? `${wouldWords(data)} ` : ''}
      {coverageWords(data)}
    </>
  );
}

function Go({ path: { watched, tried } }: { readonly path: OpenPath }): ReactNode {
  const { editGroup } = useRights();
  const group = tried ?? watched;
  if (group === undefined) return null;
  const rules = (group.inbound_rules ?? []).length + (group.outbound_rules ?? []).length;
  const { trial } = group;
  return (
    <>
      <Step title="Observe" state="done">
        Agents report what they admit and refuse.
      </Step>
      <Step title="Propose rules" state="done">
        <GroupLink id={group.id} /> has {plural(rules, 'rule')}.
      </Step>
      <Step title="Watch only" state={tried === undefined ? 'now' : 'done'}>
        {tried === undefined ? (
          <>
            <Watched group={group} /> The page of <GroupLink id={group.id} /> lists it. Edit the rules there.
          </>
        ) : (
          'It was watch only before the trial.'
        )}
      </Step>
      <Step
        title="Try it"
        state={tried === undefined ? 'later' : 'now'}
        action={tried === undefined && editGroup(group) ? <ModeButton group={group} /> : undefined}
      >
        {trial === undefined
          ? 'Enforce shows who loses what. Choose Try it first there: every device takes the rules back by itself unless you keep them.'
          : `It is tried on ${scopeWords(trial.scope)} until ${clockTime(Date.parse(trial.ends_at), Date.now())}. Keep or revert it in the bar at the top.`}
      </Step>
    </>
  );
}

/** For owners, on the page of a device that admits everything, or that only a trial closes. */
export function OpenDevice({ device }: { readonly device: Device }): ReactNode {
  const { groups, groupById } = useSnapshot();
  const { isOwner } = useRights();
  const path = useMemo(() => openPath(device, { groups, groupById }), [device, groups, groupById]);
  if (path === undefined || !isOwner) return null;
  const { openBy, watched, tried } = path;
  // A group of its own replaces the default group, and no other.
  const others = openBy.filter(({ by }) => by !== 'default').flatMap(({ group }) => group?.group_name ?? []);
  return (
    <section className="card" aria-label="From open to enforced">
      <div className="card-head">
        <div>
          <h2>{openBy.length === 0 ? 'Rules are on trial here' : 'This device admits everything'}</h2>
          <p className="small dimmed">Five steps lead to rules that admit only what it needs.</p>
        </div>
      </div>
      <ol className="rows path-steps">
        {watched === undefined && tried === undefined ? <Begin device={device} /> : <Go path={path} />}
        <Step title="Enforce" state="later">
          {others.length === 0
            ? 'Keep the trial, or enforce at once. The group then takes the place of the default group.'
            : `Then detach ${others.join(', ')} from the device: while it applies, everything gets in.`}
        </Step>
      </ol>
    </section>
  );
}

interface OpenPath {
  /** The groups that admit everything; none while a trial closes the device. */
  readonly openBy: readonly GroupOn[];
  /** The watch-only group that could close the device: the newest, where there are several. */
  readonly watched: SecurityGroup | undefined;
  /** Such a group while it is tried. */
  readonly tried: SecurityGroup | undefined;
}

/** Undefined for a device that is closed, and not only by a trial. */
function openPath(device: Device, { groups, groupById }: Pick<Snapshot, 'groups' | 'groupById'>): OpenPath | undefined {
  const selection = groupsOf(device, groups);
  const records = (ids: readonly string[]): readonly SecurityGroup[] =>
    ids.flatMap((id) => groupById.get(id) ?? []).toSorted((a, b) => b.revision - a.revision);
  const openBy = selection.groups.flatMap(({ id, by, group }): readonly GroupOn[] =>
    group !== undefined && isOpenGroup(group) ? [{ id, by, group: groupById.get(id) }] : [],
  );
  const [watched] = records(selection.watchOnly.flatMap(({ id, guardrail }) => (guardrail === undefined ? [id] : [])));
  const tried = records(selection.groups.map(({ id }) => id)).find(({ trial }) => trial?.before?.mode === 'observe');
  return openBy.length > 0 || tried !== undefined ? { openBy, watched, tried } : undefined;
}

const dayMs = 86_400_000;

/** The devices that it is for. */
type ProposalFor = { readonly device_ids: readonly string[] } | { readonly labels: readonly string[] };

/** Agents report once a minute. */
const everyMs = 60_000;

/** Of a device that has just joined there may be traffic before the first whole minute counts as observed. */
const isAnything = ({ observed, admitted_packets }: Proposal): boolean => observed > 0 || admitted_packets > 0;

function useProposal(of: ProposalFor, days: number, isAsked = true): UseQueryResult<Proposal> {
  const { client } = useSession();
  const { id: org } = useLive();
  return useQuery({
    queryKey: ['proposal', org, of, days],
    queryFn: ({ signal }) =>
      client.propose(org, { ...of, since: new Date(Date.now() - days * dayMs).toISOString() }, { signal }),
    enabled: isAsked,
    retry: false,
    // It is asked again only while there is nothing: the answer costs the server more than most.
    refetchInterval: ({ state }) => (state.data !== undefined && !isAnything(state.data) ? everyMs : false),
  });
}

const windows = [
  { value: '1', label: '1 day' },
  { value: '7', label: '7 days' },
  { value: '14', label: '14 days' },
] as const;

const directionWords = { inbound: 'Inbound', outbound: 'Outbound' } as const;

function Rule({ proposed }: { readonly proposed: ProposedRule }): ReactNode {
  const names = useDeviceNames();
  return (
    <li>
      <strong>
        {directionWords[proposed.direction]} {ruleText(proposed.rule, names)}
      </strong>
      <span className="small dimmed">
        {seenWords(proposed)}, last <Ago at={proposed.last_seen} />
      </span>
      {checkWords(proposed).map((words) => (
        <span key={words} className="small proposed-check">
          {words}
        </span>
      ))}
    </li>
  );
}

/** Traffic that no rule admits, folded. */
function Traffic({
  summary,
  lines,
  sums,
}: {
  readonly summary: string;
  readonly lines: readonly string[];
  readonly sums: number;
}): ReactNode {
  const more = sums - lines.length;
  if (lines.length === 0) return null;
  return (
    <details className="disclosure">
      <summary>{summary}</summary>
      <ul className="rows proposed-rules">
        {lines.map((words) => (
          <li key={words} className="small">
            {words}
          </li>
        ))}
        {more > 0 ? <li className="small dimmed">And {more} more.</li> : null}
      </ul>
    </details>
  );
}

function Found({ proposal }: { readonly proposal: Proposal }): ReactNode {
  const { rules, not_covered, refused_by_far_end } = proposal;
  const empty = emptyDirectionWords(proposal);
  return (
    <>
      {rules.length === 0 ? null : (
        <ul className="rows proposed-rules" aria-label="Proposed rules">
          {rules.map((proposed) => (
            <Rule
              key={`${proposed.direction} ${proposed.rule.ip_protocol} ${proposed.rule.from_port}`}
              proposed={proposed}
            />
          ))}
        </ul>
      )}
      <p className={not_covered.packets > 0 ? 'note note-warn' : 'note note-plain'}>
        {coveredWords(proposal)} {rules.length === 0 ? '' : empty}
      </p>
      <Traffic
        summary={`${plural(not_covered.sums, 'connection')} that the rules would refuse`}
        lines={not_covered.flows.map(notCoveredWords)}
        sums={not_covered.sums}
      />
      <Traffic
        summary={`${plural(refused_by_far_end.sums, 'connection')} that the far end refused, and that get no rule`}
        lines={refused_by_far_end.flows.map(leftOutWords)}
        sums={refused_by_far_end.sums}
      />
      {proposal.observed === 0 ? null : <p className="small dimmed">{proposalCoverage(proposal)}</p>}
    </>
  );
}

function ProposalDialog({ device, close }: { readonly device: Device; readonly close: () => void }): ReactNode {
  const { client } = useSession();
  const { id: org } = useLive();
  const { devices, groups } = useSnapshot();
  const { governs } = useRights();
  const { labels = [] } = device;
  const [label, setLabel] = useState('');
  const [days, setDays] = useState<(typeof windows)[number]['value']>('7');
  const [typed, setTyped] = useState<string>();
  const [id] = useState(() => crypto.randomUUID());
  const of = label === '' ? { device_ids: [device.id] } : { labels: [label] };
  const query = useProposal(of, Number(days));
  const proposal = query.data;
  const name = deviceName(device);
  const free = freeName(proposal?.group.group_name ?? '', new Set(groups.map(({ group_name }) => group_name)));
  const groupName = typed ?? free;
  const hasRules = proposal !== undefined && proposal.rules.length > 0;
  const write = useWrite(async () => {
    if (proposal === undefined) return;
    const { org_id: _org, ...group } = proposal.group;
    const { change_id } = await writeOrAsk((agreed) =>
      client.changes.apply(
        org,
        {
          security_groups: [{ ...group, id, group_name: groupName.trim() }],
          ...(label === '' && {
            devices: [
              { id: device.id, revision: device.revision, security_groups: [...(device.security_groups ?? []), id] },
            ],
          }),
        },
        agreed,
      ),
    );
    notify(`${groupName.trim()} is there, and watch only.`, () => client.changes.revert(org, change_id));
    close();
  });
  const carriers = (one: string): number => devicesNamed([{ labels: [one] }], devices).length;
  return (
    <FormDialog
      title={`Propose rules for ${name}`}
      size="xl"
      close={close}
      write={write}
      action={governs ? 'Create the watch-only group' : undefined}
      disabled={!hasRules || groupName.trim() === ''}
    >
      {labels.length === 0 ? null : (
        <RadioList
          label="For"
          value={label}
          onChange={setLabel}
          choices={[
            { value: '', label: `${name} only` },
            ...labels.map((one) => ({
              value: one,
              label: <span className="mono">{labelChip([one])}</span>,
              about: `${plural(carriers(one), 'device')} now, and each that gets the label later.`,
            })),
          ]}
        />
      )}
      <div className="row between">
        <span aria-hidden="true">From the traffic of the last</span>
        <SegmentedControl
          aria-label="From the traffic of the last"
          data={[...windows]}
          value={days}
          onChange={setDays}
        />
      </div>
      <ListState query={query} loading="Looking at the traffic…" />
      {proposal === undefined || query.error !== null ? null : <Found proposal={proposal} />}
      {hasRules && governs ? (
        <TextInput
          label="Name of the group"
          description="The group is watch only: it decides nothing until you let it enforce. You can edit its rules before."
          value={groupName}
          maxLength={limits.name}
          onChange={(event) => setTyped(event.currentTarget.value)}
        />
      ) : null}
    </FormDialog>
  );
}
