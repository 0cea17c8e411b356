/** Owns the preview of proposed rules: each with its evidence, what they would refuse, and the one change that makes them a watch-only group. */
import { SegmentedControl, TextInput } from '@mantine/core';
import { useState, type ReactNode } from 'react';
import type { Device } from '../../api/device.ts';
import { limits } from '../../api/limits.ts';
import type { Proposal, ProposedRule } from '../../api/usage/proposal.ts';
import {
  checkWords,
  coveredWords,
  emptyDirectionWords,
  leftOutWords,
  notCoveredWords,
  proposalCoverage,
  seenWords,
} from '../../client/words/proposal.ts';
import { devicesNamed } from '../../organization/of-records.ts';
import { FormDialog } from '../components/dialog.tsx';
import { ListState } from '../components/placeholders.tsx';
import { RadioList } from '../components/radio-list.tsx';
import { Ago } from '../components/time.tsx';
import { notify } from '../components/toast.tsx';
import { labelChip } from '../model/far-end.ts';
import { plural, ruleText } from '../model/rule-text.ts';
import { freeName } from '../policy-test/test-draft.ts';
import { useDeviceNames } from '../state/fleet.ts';
import { deviceName } from '../state/live.ts';
import { useLive, useRights, useSnapshot } from '../state/organization.ts';
import { writeOrAsk } from '../state/refusal.ts';
import { useSession } from '../state/session.ts';
import { useWrite } from '../state/write.ts';
import { useProposal } from './proposal.ts';

const windows = [
  { value: '1', label: '1 day' },
  { value: '7', label: '7 days' },
  { value: '14', label: '14 days' },
] as const;

const directionWords = { inbound: 'Inbound', outbound: 'Outbound' } as const;

function Rule({ proposed }: { readonly proposed: ProposedRule }): ReactNode {
  const names = useDeviceNames();
  return (
    <li className="proposed-rule">
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
      <ul className="proposed-rules">
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
        <ul className="proposed-rules" aria-label="Proposed rules">
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
      <p className="small dimmed">{proposalCoverage(proposal)}</p>
    </>
  );
}

export function ProposalDialog({ device, close }: { readonly device: Device; readonly close: () => void }): ReactNode {
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
