/** Owns the user's own tokens: the purpose, scope and last use of each; creation, rotation and revocation. */
import { Button, SegmentedControl, Select, TextInput } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState, type ReactNode } from 'react';
import type { IssuedToken, Token } from '../../api/user.ts';
import { KeyIcon, PlusIcon } from '../components/icons.tsx';
import { endOf, lengthChoices } from '../model/expiry.ts';
import { plural } from '../../client/words/number.ts';
import { Dialog, DialogFoot, FormDialog, Confirm, type Confirmation } from '../components/dialog.tsx';
import { TakeAway } from '../components/secret.tsx';
import { Empty } from '../components/placeholders.tsx';
import { List, ListRow } from '../components/list.tsx';
import { SmallButton, Tag, Ago, Card, Page } from '../components/page.tsx';
import { failed, notify, useWrite } from '../state/write.tsx';
import { deviceName, useSnapshot } from '../state/organization.ts';
import { useMayWrite, useSession } from '../state/session.ts';

const tokensKey = ['tokens'];
const lasting = [
  ...lengthChoices('week', 'month', 'quarter', 'year'),
  { value: 'never', label: 'Until it is revoked' },
];
/** The most devices that are listed. */
const shownDevices = 50;

function Make({ close, made }: { readonly close: () => void; readonly made: (token: IssuedToken) => void }): ReactNode {
  const { client } = useSession();
  const queries = useQueryClient();
  const [name, setName] = useState('');
  const [scope, setScope] = useState<Token['scope']>('full');
  const [lasts, setLasts] = useState('quarter');
  const write = useWrite(async () => {
    const expires_at = endOf(lasts, Date.now());
    const token = await client.tokens.create({
      name: name.trim(),
      scope,
      ...(expires_at === undefined ? {} : { expires_at }),
    });
    await queries.invalidateQueries({ queryKey: tokensKey });
    made(token);
  });
  return (
    <FormDialog title="New token" close={close} write={write} action="Make the token">
      <TextInput
        label="What is it for?"
        placeholder="Laptop, deploy script, dashboard …"
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        maxLength={255}
        data-autofocus
      />
      <div className="stack tight">
        <SegmentedControl
          aria-label="What may it do?"
          fullWidth
          value={scope}
          onChange={(value) => setScope(value === 'read-only' ? 'read-only' : 'full')}
          data={[
            { value: 'full', label: 'Everything you may' },
            { value: 'read-only', label: 'Only read' },
          ]}
        />
        <p className="small dimmed">
          {scope === 'full'
            ? 'Anyone who has it can do everything that you can.'
            : 'It sees what you see, and the server refuses every change.'}
        </p>
      </div>
      <Select
        label="How long does it last?"
        data={lasting}
        value={lasts}
        onChange={(value) => setLasts(value ?? 'quarter')}
        allowDeselect={false}
      />
    </FormDialog>
  );
}

function Shown({ token, close }: { readonly token: IssuedToken; readonly close: () => void }): ReactNode {
  return (
    <Dialog
      title={token.name || 'Your token'}
      size="lg"
      close={close}
      closeOnClickOutside={false}
      closeOnEscape={false}
    >
      <div className="stack">
        <TakeAway text={token.token} label="The token" />
        <p className="note note-warn">It is shown only now: the server keeps no copy. Store it like a password.</p>
        {token.kind === 'device' ? (
          <p className="small dimmed">Put it into the agent’s token file on the device: it reads the file again.</p>
        ) : (
          <p className="small dimmed">
            For the command line: <code>ringfence login {location.origin}</code> and paste it, or set{' '}
            <code>RINGFENCE_TOKEN</code>.
          </p>
        )}
        <DialogFoot>
          <Button onClick={close}>Done</Button>
        </DialogFoot>
      </div>
    </Dialog>
  );
}

function Entry({
  token,
  isThis = false,
  renew,
  rotate,
  revoke,
}: {
  readonly token: Token;
  readonly isThis?: boolean;
  readonly renew?: (token: Token) => void;
  readonly rotate: (token: Token) => void;
  readonly revoke: (token: Token) => void;
}): ReactNode {
  const mayWrite = useMayWrite();
  const device = useSnapshot().deviceById.get(token.device_id ?? '');
  const name = device === undefined ? token.name || 'unnamed' : deviceName(device);
  const over = token.expires_at !== undefined && Date.parse(token.expires_at) <= Date.now();
  const action = (verb: string, act: (token: Token) => void): ReactNode => (
    <SmallButton aria-label={`${verb} ${name}`} onClick={() => act(token)}>
      {verb}
    </SmallButton>
  );
  return (
    <ListRow
      name={name}
      tags={
        <>
          {token.device_id !== undefined && device === undefined ? <Tag>a device elsewhere</Tag> : null}
          {token.scope === 'read-only' ? <Tag>only reads</Tag> : null}
          {isThis ? <Tag tone="accent">you are signed in with it</Tag> : null}
          {over ? <Tag tone="bad">expired</Tag> : null}
        </>
      }
      about={
        <>
          made <Ago at={token.created_at} /> · {token.last_used_at === undefined ? 'never used' : 'used '}
          {token.last_used_at === undefined ? null : <Ago at={token.last_used_at} />} ·{' '}
          {token.expires_at === undefined ? 'lasts until revoked' : over ? 'ended ' : 'ends '}
          {token.expires_at === undefined ? null : <Ago at={token.expires_at} />}
        </>
      }
      actions={
        mayWrite ? (
          <>
            {renew && action('Renew', renew)}
            {isThis ? null : action('Rotate', rotate)}
            {action('Revoke', revoke)}
          </>
        ) : undefined
      }
    />
  );
}

export function TokensPage(): ReactNode {
  const { client, me, end } = useSession();
  const mayWrite = useMayWrite();
  const queries = useQueryClient();
  const [making, setMaking] = useState(false);
  const [issued, setIssued] = useState<IssuedToken>();
  const [confirmation, setConfirmation] = useState<Confirmation>();
  const query = useQuery({
    queryKey: tokensKey,
    queryFn: ({ signal }) => client.tokens.list({ signal }),
  });
  const { data } = query;
  const own = (data ?? []).filter(({ kind }) => kind === 'user').toReversed();
  const { deviceById } = useSnapshot();
  const isHere = ({ device_id }: Token): boolean => deviceById.has(device_id ?? '');
  const ofAllDevices = (data ?? []).filter(({ kind }) => kind === 'device').toReversed();
  // Those of this organization first: they have names here.
  const ofDevices = [...ofAllDevices.filter(isHere), ...ofAllDevices.filter((token) => !isHere(token))];
  const isThis = (token: Token): boolean => token.id === me.credential?.id;
  const rotate = (token: Token): void =>
    setConfirmation({
      title: `Give ${token.name || 'this token'} another secret?`,
      body:
        token.kind === 'device'
          ? 'The old secret stops at once. The agent keeps the rules that it has, and follows changes again once it has the new secret.'
          : 'The old secret stops at once; whatever uses it needs the new one. Name, scope and expiry stay.',
      action: 'Rotate it',
      act: async () => {
        const { token: secret, ...rotated } = await client.tokens.rotate(token.id);
        if (secret !== undefined) setIssued({ ...rotated, token: secret });
        await queries.invalidateQueries({ queryKey: tokensKey });
      },
    });
  const renew = (token: Token): void =>
    setConfirmation({
      title: `Let the device renew its token?`,
      body: 'Its agent makes another secret by itself, at once where it is connected. The old secret stops when the new one is first used. This works for devices that joined with an enrollment key.',
      action: 'Renew it',
      act: async () => {
        await client.tokens.rotate(token.id, { by_device: true });
        notify('The device is asked to renew its token.');
      },
    });
  const revoke = (token: Token): void =>
    setConfirmation({
      title: `Revoke ${token.name || 'this token'}?`,
      body:
        token.kind === 'device'
          ? 'The agent that uses it is refused from now on, and its streams end. It keeps the rules that it has. The device must join anew.'
          : isThis(token)
            ? 'You are signed in with it: this signs you out.'
            : 'Whatever uses it is refused from now on, and its streams end. This cannot be taken back.',
      action: 'Revoke it',
      act: async () => {
        await client.tokens.revoke(token.id);
        if (isThis(token)) {
          end('Your token is revoked. Sign in with another.');
          return;
        }
        notify(`${token.name || 'The token'} is revoked.`);
        await queries.invalidateQueries({ queryKey: tokensKey }).catch(failed);
      },
    });
  return (
    <Page
      title="Your tokens"
      about="Tokens sign you in: here, on the command line and in programs. Create one for each use."
      actions={
        mayWrite ? (
          <Button leftSection={<PlusIcon />} onClick={() => setMaking(true)}>
            New token
          </Button>
        ) : undefined
      }
    >
      <Confirm confirmation={confirmation} close={() => setConfirmation(undefined)} />
      {making ? (
        <Make
          close={() => setMaking(false)}
          made={(token) => {
            setMaking(false);
            setIssued(token);
          }}
        />
      ) : null}
      {issued === undefined ? null : <Shown token={issued} close={() => setIssued(undefined)} />}
      <section className="card" aria-label="Tokens">
        <List
          query={query}
          loading="Loading your tokens…"
          entries={own}
          empty={
            <Empty icon={<KeyIcon size={40} />} title="No tokens yet">
              You signed in another way. Make a token for the command line or for a program.
            </Empty>
          }
          row={(token) => <Entry key={token.id} token={token} isThis={isThis(token)} rotate={rotate} revoke={revoke} />}
        />
      </section>
      {ofDevices.length === 0 ? null : (
        <Card
          title="Of your devices"
          label="Tokens of your devices"
          about="Each agent has its own token, created when the device joined."
        >
          <ul className="rows">
            {ofDevices.slice(0, shownDevices).map((token) => (
              <Entry key={token.id} token={token} renew={renew} rotate={rotate} revoke={revoke} />
            ))}
          </ul>
          {ofDevices.length > shownDevices ? (
            <p className="card-body small dimmed">
              And {plural(ofDevices.length - shownDevices, 'token')} more; a device's token ends with the device.
            </p>
          ) : null}
        </Card>
      )}
    </Page>
  );
}
