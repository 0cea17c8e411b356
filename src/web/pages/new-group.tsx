/** Owns the creation of a group: its owner, its rules, and the group that it is copied from. */
import { Back } from '../components/record-link.tsx';
import { Button, Checkbox, SegmentedControl } from '@mantine/core';
import { useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { useMemo, useRef, useState, type ReactNode } from 'react';
import { Confirm, LeaveGuard, type Confirmation } from '../components/dialog.tsx';
import { contentOf, countFields, draftOf, emptyContent, judge } from '../model/draft.ts';
import { plural } from '../../client/words/number.ts';
import { DraftFields, askTakenName } from '../group/group-editor.tsx';
import { Preview } from '../group/preview.tsx';
import { notify, writeOrAsk, useWrite } from '../state/write.tsx';
import { Page } from '../components/page.tsx';
import { useSnapshot, useRights, useDeviceNames } from '../state/organization.ts';
import { useSession } from '../state/session.ts';
import { TryDialog, type TrialQuery } from '../trial/try-dialog.tsx';
import { devicesNamed } from '../../organization/of-records.ts';
import { isEnforced } from '../../policy/effective.ts';
import type { GuardrailKind } from '../../policy/rule.ts';

function meaningOf(isOrganizations: boolean, guardrail: GuardrailKind | undefined): string {
  if (!isOrganizations) return 'Only you change it, and only your own devices can carry it.';
  if (guardrail === 'forbid') return 'What it matches is refused on its devices, whatever any group says.';
  if (guardrail === 'require') return 'What it matches is admitted on its devices, whatever any group says.';
  return 'Owners change it, and every device of the organization can carry it.';
}

export function NewGroupPage(): ReactNode {
  const { org } = useParams({ from: '/o/$org/groups/new' });
  const { from } = useSearch({ from: '/o/$org/groups/new' });
  const { groupById, devices } = useSnapshot();
  const names = useDeviceNames();
  const { client } = useSession();
  const { governs, me } = useRights();
  const navigate = useNavigate();
  const [draft, setDraft] = useState(() => {
    const source = from === undefined ? undefined : groupById.get(from);
    if (source === undefined) return draftOf(emptyContent, names);
    return draftOf({ ...contentOf(source), group_name: `${source.group_name} copy` }, names);
  });
  // A user who may create groups for the organization usually wants that, as on the command line. A copy of a user's
  // own group stays the user's own.
  const isMine = from !== undefined && groupById.get(from)?.user_id === me.id;
  const [chosen, setOwner] = useState<'me' | 'organization'>();
  const owner = chosen ?? (governs && !isMine ? 'organization' : 'me');
  const [kind, setKind] = useState<'group' | GuardrailKind>('group');
  const [isWatchOnly, setWatchOnly] = useState(from !== undefined && groupById.get(from)?.mode === 'observe');
  const mode = isWatchOnly ? 'observe' : undefined;
  const isOrganizations = owner === 'organization';
  const guardrail = isOrganizations && kind !== 'group' ? kind : undefined;
  const touched = useRef(false);
  const meant = useMemo(() => (isOrganizations ? draft : { ...draft, appliesTo: [] }), [draft, isOrganizations]);
  const { content, problems } = useMemo(
    () => judge(meant, { names, guardrail, mode }),
    [meant, names, guardrail, mode],
  );
  const [confirmation, setConfirmation] = useState<Confirmation>();
  const [isTrying, setTrying] = useState(false);
  const [isLooking, setLooking] = useState(false);
  /** Only a group that applies by label and enforces does something at once. */
  const hasEffect = content !== undefined && content.applies_to.length > 0 && isEnforced(content);
  const create = async (trial?: TrialQuery): Promise<void> => {
    if (content === undefined) return;
    const { applies_to, ...rest } = content;
    const body = { ...rest, ...(applies_to.length > 0 && { applies_to }) };
    const made = await writeOrAsk((agreed) =>
      (isOrganizations ? client.groups : client.userGroups).create(org, body, { ...trial, ...agreed }),
    );
    touched.current = false;
    notify(
      !isEnforced(made)
        ? `${made.group_name} is there, and watch only.`
        : applies_to.length > 0
          ? `${made.group_name} is there, and applies by label.`
          : `${made.group_name} is there. Attach it to devices to make it count.`,
    );
    await navigate({ to: '/o/$org/groups/$group', params: { org, group: made.id } });
  };
  const { start, busy, fault } = useWrite(async () => {
    const named = { group_name: content?.group_name ?? '', user_id: isOrganizations ? undefined : me.id };
    const question = askTakenName(groupById.values(), named, me.id);
    if (question === undefined) return create();
    setConfirmation({ ...question, action: 'Create a second group', act: () => create() });
  });
  return (
    <Page
      title="New group"
      about="It changes nothing until a device uses it."
      back={<Back to="groups" />}
      actions={
        governs ? (
          <SegmentedControl
            aria-label="Whose group"
            value={owner}
            onChange={setOwner}
            data={[
              { value: 'organization', label: "The organization's" },
              { value: 'me', label: 'Mine' },
            ]}
          />
        ) : null
      }
    >
      <LeaveGuard guarded={() => touched.current} />
      <Confirm confirmation={confirmation} close={() => setConfirmation(undefined)} />
      {isOrganizations ? (
        <SegmentedControl
          aria-label="Kind of group"
          value={kind}
          onChange={(value) => setKind(value)}
          data={[
            { value: 'group', label: 'Group' },
            { value: 'forbid', label: 'Guardrail: forbid' },
            { value: 'require', label: 'Guardrail: require' },
          ]}
        />
      ) : null}
      <p className="note note-plain">{meaningOf(isOrganizations, guardrail)}</p>
      <Checkbox
        label="Watch only first"
        description="It decides nothing until you let it enforce. Its page shows what it would have refused and admitted."
        checked={isWatchOnly}
        onChange={(event) => setWatchOnly(event.currentTarget.checked)}
      />
      <DraftFields
        draft={draft}
        appliesByLabel={isOrganizations}
        guardrail={guardrail}
        autoFocus
        setDraft={(next) => {
          touched.current = true;
          setDraft(next);
        }}
      />
      {fault === undefined ? null : (
        <p className="note note-bad" role="alert">
          {fault}
        </p>
      )}
      {content === undefined || !isLooking ? null : (
        <Preview
          close={() => setLooking(false)}
          before={emptyContent}
          after={content}
          change={{ security_groups: [content] }}
        >
          <Button loading={busy} onClick={() => start()}>
            Create the group
          </Button>
        </Preview>
      )}
      {isTrying ? (
        <TryDialog
          title={`Try ${content?.group_name ?? 'the group'}`}
          of={devicesNamed(content?.applies_to ?? [], devices)}
          close={() => setTrying(false)}
          start={create}
        />
      ) : null}
      <div className="row end">
        {hasEffect ? (
          <>
            <Button size="md" variant="default" onClick={() => setLooking(true)}>
              Preview
            </Button>
            <Button size="md" variant="default" onClick={() => setTrying(true)}>
              Try it first
            </Button>
          </>
        ) : null}
        {content === undefined && draft.name !== '' ? (
          <span className="fault">{plural(countFields(problems), 'problem')} to solve before saving</span>
        ) : null}
        <Button size="md" disabled={content === undefined} loading={busy} onClick={() => start()}>
          Create the group
        </Button>
      </div>
    </Page>
  );
}
