/** Owns the choice among organizations, and the creation of another. */
import { Button, Menu, Textarea, TextInput } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState, type ReactNode } from 'react';
import { FormDialog } from '../components/dialog.tsx';
import { CheckIcon, DownIcon, PlusIcon } from '../components/icons.tsx';
import { notify, useWrite } from '../state/write.tsx';
import { useOrganizations } from '../state/organization.ts';
import { useMayWrite, useSession } from '../state/session.ts';

export function NewOrganization({ close }: { readonly close: () => void }): ReactNode {
  const { client } = useSession();
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [name, setName] = useState('');
  const [description, setDescription] = useState('');
  const write = useWrite(async () => {
    const made = await client.organizations.create({
      name: name.trim(),
      ...(description.trim() === '' ? {} : { description: description.trim() }),
    });
    await queries.invalidateQueries({ queryKey: ['organizations'] });
    close();
    notify(`${made.name} was created, with its default group.`);
    await navigate({ to: '/o/$org/overview', params: { org: made.id } });
  });
  return (
    <FormDialog title="New organization" close={close} write={write} action="Create" disabled={name.trim() === ''}>
      <p className="dimmed small">
        You will own it. It starts with a default group that lets everything in; write stricter groups when your devices
        are there.
      </p>
      <TextInput
        label="Name"
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        maxLength={255}
        required
        data-autofocus
      />
      <Textarea
        label="Description"
        value={description}
        onChange={(event) => setDescription(event.currentTarget.value)}
        rows={3}
      />
    </FormDialog>
  );
}

export function Switcher({ current }: { readonly current: string }): ReactNode {
  const { data = [] } = useOrganizations();
  const { me } = useSession();
  const mayWrite = useMayWrite();
  const navigate = useNavigate();
  const [making, setMaking] = useState(false);
  const name = data.find(({ id }) => id === current)?.name ?? 'Organization';
  return (
    <>
      <Menu position="bottom-start" width={260}>
        <Menu.Target>
          <Button
            variant="default"
            fullWidth
            justify="space-between"
            rightSection={<DownIcon size={16} />}
            aria-label={`Organization: ${name}. Switch`}
          >
            <span className="clip">{name}</span>
          </Button>
        </Menu.Target>
        <Menu.Dropdown mah="60vh" className="scrolls">
          {data.map((organization) => (
            <Menu.Item
              key={organization.id}
              leftSection={organization.id === current ? <CheckIcon size={16} /> : <span className="blank16" />}
              onClick={() => void navigate({ to: '/o/$org/overview', params: { org: organization.id } })}
            >
              {organization.name}
              <span className="small dimmed">{organization.owner_id === me.id ? ' · yours' : ''}</span>
            </Menu.Item>
          ))}
          {mayWrite ? (
            <>
              <Menu.Divider />
              <Menu.Item leftSection={<PlusIcon size={16} />} onClick={() => setMaking(true)}>
                New organization
              </Menu.Item>
            </>
          ) : null}
        </Menu.Dropdown>
      </Menu>
      {making ? <NewOrganization close={() => setMaking(false)} /> : null}
    </>
  );
}
