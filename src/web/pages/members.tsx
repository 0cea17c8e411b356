/** Owns the organization's own page: its name, its members, and its deletion. */
import { Button, Checkbox, NativeSelect, TextInput } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate, useParams } from '@tanstack/react-router';
import { useState, type ReactNode } from 'react';
import type { Invitation, Member, MemberRole, Organization } from '../../api/organization.ts';
import { RingfenceError } from '../../client/error.ts';
import { isAddress } from '../../client/sign-in.ts';
import { couldMean } from '../../client/words/naming.ts';
import { isUuid } from '../../policy/ids.ts';
import { grouped, plural } from '../../client/words/number.ts';
import { Facts, Tag, Ago, Card, Page, SmallButton } from '../components/page.tsx';
import { Confirm, type Confirmation } from '../components/dialog.tsx';
import { ListState } from '../components/placeholders.tsx';
import { TrafficSettings } from '../flows/observe-setting.tsx';
import { notify, writeOrAsk, useWrite } from '../state/write.tsx';
import { useMembers, useOrganization, useSnapshot, useRights, useLive } from '../state/organization.ts';
import { useSession } from '../state/session.ts';
import { ListRow } from '../components/list.tsx';

const invitationsKey = (org: string): readonly string[] => ['invitations', org];

/** People who become members when they sign in. */
function Invitations(): ReactNode {
  const { id: org } = useLive();
  const { client } = useSession();
  const queries = useQueryClient();
  const { data = [] } = useQuery({
    queryKey: invitationsKey(org),
    queryFn: ({ signal }) => client.invitations.list(org, { signal }),
  });
  const { start: revoke } = useWrite(async ({ id, email, username }: Invitation) => {
    await client.invitations.revoke(org, id);
    await queries.invalidateQueries({ queryKey: invitationsKey(org) });
    notify(`The invitation of ${email ?? username} is revoked.`);
  }, 'Something went wrong');
  if (data.length === 0) return null;
  return (
    <ul className="rows" aria-label="Invitations">
      {data.map((invitation) => (
        <ListRow
          key={invitation.id}
          name={invitation.email ?? invitation.username}
          tags={<Tag>invited</Tag>}
          about={
            <>
              becomes {invitation.role === 'owner' ? 'an owner' : 'a member'} by signing in at {invitation.issuer}; the
              invitation ends <Ago at={invitation.expires_at} />
            </>
          }
          actions={
            <SmallButton
              onClick={() => revoke(invitation)}
              aria-label={`Revoke the invitation of ${invitation.email ?? invitation.username}`}
            >
              Revoke
            </SmallButton>
          }
        />
      ))}
    </ul>
  );
}

/** Whether the server refused the provider. */
const isAboutProvider = (error: unknown): boolean =>
  error instanceof RingfenceError && error.errors.some(({ code }) => code === 'unknown_issuer');

function AddMember(): ReactNode {
  const { id: org } = useLive();
  const { client } = useSession();
  const queries = useQueryClient();
  const members = useMembers().data ?? [];
  const [username, setUsername] = useState('');
  const [role, setRole] = useState<MemberRole>('member');
  /** Undefined until the server has asked for one of several. */
  const [issuer, setIssuer] = useState<string>();
  /** Whether the last refusal was about the provider. */
  const [wrongProvider, setWrongProvider] = useState(false);
  const { submit, busy, fault } = useWrite(async () => {
    const [name, provider = ''] = [username.trim(), issuer?.trim()];
    setWrongProvider(false);
    const other = members.find((member) => member.username !== name && couldMean(member.user_id, name));
    if (other !== undefined && !isUuid(name)) {
      const whose = `${other.username} (${other.user_id})`;
      throw new Error(`This is also part of the id of ${whose}. Enter the full id of the user.`);
    }
    if (await isAddress(client, name)) {
      const { email } = await client.invitations
        .create(org, { email: name, role, ...(provider !== '' && { issuer: provider }) })
        .catch((refusal: unknown) => {
          if (isAboutProvider(refusal)) {
            setIssuer(provider);
            setWrongProvider(true);
          }
          throw refusal;
        });
      await queries.invalidateQueries({ queryKey: invitationsKey(org) });
      notify(`${email} is invited, and becomes ${role === 'owner' ? 'an owner' : 'a member'} at the next sign-in.`);
    } else {
      const added = await client.members.add(org, isUuid(name) ? { user_id: name } : { username: name });
      if (role === 'owner') await client.members.update(org, added.user_id, { role });
      await queries.invalidateQueries({ queryKey: ['members', org] });
      notify(`${added.username} is ${role === 'owner' ? 'an owner' : 'a member'} now.`);
    }
    setUsername('');
    setRole('member');
    setIssuer(undefined);
  });
  return (
    <form className="row card-body" onSubmit={submit}>
      <TextInput
        className="grow"
        miw={200}
        aria-label="Username or e-mail of the new member"
        placeholder="Username or e-mail"
        value={username}
        onChange={(event) => setUsername(event.currentTarget.value)}
        error={wrongProvider ? undefined : fault}
      />
      {issuer === undefined ? null : (
        <TextInput
          className="grow"
          miw={200}
          aria-label="Identity provider"
          placeholder="Identity provider"
          value={issuer}
          onChange={(event) => setIssuer(event.currentTarget.value)}
          error={wrongProvider ? fault : undefined}
        />
      )}
      <NativeSelect
        aria-label="Role of the new member"
        data={[
          { value: 'member', label: 'as a member' },
          { value: 'owner', label: 'as an owner' },
        ]}
        value={role}
        onChange={(event) => setRole(event.currentTarget.value === 'owner' ? 'owner' : 'member')}
      />
      <Button type="submit" variant="default" loading={busy} disabled={username.trim() === ''}>
        Add member
      </Button>
    </form>
  );
}

function Rename({ organization }: { readonly organization: Organization }): ReactNode {
  const { client } = useSession();
  const queries = useQueryClient();
  const [name, setName] = useState(organization.name);
  const { submit } = useWrite(async () => {
    await client.organizations.update(organization.id, { name: name.trim() });
    await queries.invalidateQueries({ queryKey: ['organizations'] });
    notify('The organization is renamed.');
  }, 'Something went wrong');
  return (
    <form className="row" onSubmit={submit}>
      <TextInput
        className="grow"
        aria-label="Name of the organization"
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
      />
      <Button type="submit" variant="default" disabled={name.trim() === '' || name.trim() === organization.name}>
        Rename
      </Button>
    </form>
  );
}

export function MembersPage(): ReactNode {
  const { org } = useParams({ from: '/o/$org/members' });
  const { client } = useSession();
  const queries = useQueryClient();
  const navigate = useNavigate();
  const { devices, groups } = useSnapshot();
  const query = useMembers();
  const { data } = query;
  const { governs, mayWrite, me } = useRights();
  const organization = useOrganization();
  const [confirmation, setConfirmation] = useState<Confirmation>();

  const remove = (member: Member): void => {
    const own = member.user_id === me.id;
    const count = devices.filter(({ user_id }) => user_id === member.user_id).length;
    const written = groups.filter(({ user_id }) => user_id === member.user_id).length;
    const keep = { devices: false };
    setConfirmation({
      title: own ? 'Leave this organization?' : `Remove ${member.username}?`,
      body: (
        <div className="stack">
          <p>
            {own ? 'Your' : 'Their'} {plural(count, 'device')} and {plural(written, 'group')} that you can see are
            deleted with the membership, and open streams end. This cannot be taken back.
          </p>
          {own || count === 0 ? null : (
            <Checkbox
              label={`Take over their ${plural(count, 'device')} instead of deleting`}
              onChange={(event) => (keep.devices = event.currentTarget.checked)}
            />
          )}
        </div>
      ),
      action: own ? 'Leave' : 'Remove the member',
      act: async () => {
        await writeOrAsk((asked) =>
          client.members.remove(org, member.user_id, { ...(keep.devices && { keep: 'devices' }), ...asked }),
        );
        if (own) {
          await queries.invalidateQueries({ queryKey: ['organizations'] });
          await navigate({ to: '/' });
          return;
        }
        await queries.invalidateQueries({ queryKey: ['members', org] });
        notify(
          keep.devices
            ? `${member.username} is no longer a member. The tokens of the devices stay valid until you rotate them under “Your tokens”.`
            : `${member.username} is no longer a member.`,
        );
      },
    });
  };
  const { start: setRole } = useWrite(
    async ({ user_id, username, role }: Pick<Member, 'user_id' | 'username' | 'role'>) => {
      await client.members.update(org, user_id, { role });
      await queries.invalidateQueries({ queryKey: ['members', org] });
      notify(`${username} is ${role === 'owner' ? 'an owner' : 'a member'} now.`);
    },
    'Something went wrong',
  );
  const { start: accept } = useWrite(async () => {
    await client.members.accept(org, me.id);
    await queries.invalidateQueries({ queryKey: ['members', org] });
    notify('You are an owner of this organization.');
  }, 'Something went wrong');
  const hasAccepted = ({ role, accepted }: Member): boolean => role === 'owner' && accepted !== false;
  const isPending = data?.some((member) => member.user_id === me.id && member.accepted === false) === true;
  /** The last owner who has accepted stays. */
  const mayStepDown = (member: Member): boolean =>
    data?.some((other) => other.user_id !== member.user_id && hasAccepted(other)) === true;
  const mayGo = (member: Member): boolean =>
    (member.role !== 'owner' || mayStepDown(member)) && (governs || (mayWrite && member.user_id === me.id));
  const removeAll = (): void =>
    setConfirmation({
      title: `Delete ${organization?.name ?? 'the organization'}?`,
      ...(organization !== undefined && { typed: organization.name }),
      body: (
        <p>
          With it go {plural(devices.length, 'device')}, {plural(groups.length, 'group')} and every membership. Agents
          keep the rules that they have and are refused from then on. This cannot be taken back.
        </p>
      ),
      action: 'Delete the organization',
      act: async () => {
        await client.organizations.delete(org);
        await queries.invalidateQueries({ queryKey: ['organizations'] });
        await navigate({ to: '/' });
      },
    });

  return (
    <Page
      title={organization?.name ?? 'Organization'}
      about={organization?.description || 'Who is in it, and what belongs to it.'}
    >
      <Confirm confirmation={confirmation} close={() => setConfirmation(undefined)} />
      <div className="columns">
        <Card
          title="Members"
          about={<span className="small dimmed">{data === undefined ? '' : plural(data.length, 'member')}</span>}
        >
          <ListState query={query} loading="Loading the members…" />
          {isPending && mayWrite ? (
            <div className="row card-body">
              <p className="grow">
                Another owner made you an owner. You have the rights already. Accept to count as one: the others can
                then leave the organization to you.
              </p>
              <Button size="compact-sm" onClick={() => accept()}>
                Accept
              </Button>
            </div>
          ) : null}
          {data === undefined ? null : (
            <ul className="rows">
              {data.map((member) => (
                <ListRow
                  key={member.user_id}
                  mark={<span className="avatar" aria-hidden="true" data-letters={member.username.slice(0, 2)} />}
                  name={member.username}
                  tags={
                    <>
                      {member.user_id === me.id ? <span className="dimmed">(you)</span> : null}
                      {member.accepted === false ? <Tag>not accepted</Tag> : null}
                      {member.role === 'owner' ? <Tag tone="accent">owner</Tag> : null}
                    </>
                  }
                  about={
                    <>
                      since <Ago at={member.created_at} />
                    </>
                  }
                  actions={
                    <>
                      {governs && (member.role === 'member' || mayStepDown(member)) ? (
                        <SmallButton
                          onClick={() => setRole({ ...member, role: member.role === 'owner' ? 'member' : 'owner' })}
                          aria-label={`Make ${member.role === 'owner' ? 'member' : 'owner'}: ${member.username}`}
                        >
                          {member.role === 'owner' ? 'Make member' : 'Make owner'}
                        </SmallButton>
                      ) : null}
                      {mayGo(member) ? (
                        <SmallButton
                          onClick={() => remove(member)}
                          aria-label={member.user_id === me.id ? 'Leave the organization' : `Remove ${member.username}`}
                        >
                          {member.user_id === me.id ? 'Leave' : 'Remove'}
                        </SmallButton>
                      ) : null}
                    </>
                  }
                />
              ))}
            </ul>
          )}
          {governs ? <Invitations /> : null}
          {governs ? <AddMember /> : null}
        </Card>
        <Card title="About" label="Settings">
          <div className="card-body stack">
            <Facts
              facts={[
                ['Devices', grouped(devices.length)],
                ['Groups you see', grouped(groups.length)],
                [
                  'Id',
                  <span key="id" className="mono">
                    {org}
                  </span>,
                ],
              ]}
            />
            {governs && organization !== undefined ? (
              <>
                <Rename key={organization.name} organization={organization} />
                <Button variant="default" className="danger" onClick={removeAll}>
                  Delete the organization
                </Button>
              </>
            ) : (
              <p className="small dimmed">Owners add and remove members and change the default group.</p>
            )}
          </div>
        </Card>
      </div>
      <TrafficSettings />
    </Page>
  );
}
