/** Owns what a page knows of its organization: the live snapshot, the record, the members, and the user's rights. */
import { useQuery, type UseQueryResult } from '@tanstack/react-query';
import { createContext, use, useMemo, useSyncExternalStore } from 'react';
import type { Device, DeviceStatus } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import type { Member, MemberRole, Organization } from '../../api/organization.ts';
import type { WhoAmI } from '../../api/user.ts';
import type { LiveOrganization, Snapshot } from './live.ts';
import { useSession } from './session.ts';

export const LiveContext = createContext<LiveOrganization | undefined>(undefined);

export function useLive(): LiveOrganization {
  const live = use(LiveContext);
  if (live === undefined) throw new Error('no organization');
  return live;
}

/** An organization as it was; undefined for the present. */
export interface PastOrganization {
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly snapshot: Snapshot;
}

/** What is below it shows the organization as it was. */
export const PastContext = createContext<PastOrganization | undefined>(undefined);
export const usePast = (): PastOrganization | undefined => use(PastContext);

export function useSnapshot(): Snapshot {
  const live = useLive();
  const past = usePast();
  const present = useSyncExternalStore(live.subscribe, live.read);
  return past?.snapshot ?? present;
}

export function useOrganizations(): UseQueryResult<readonly Organization[]> {
  const { client } = useSession();
  return useQuery({
    queryKey: ['organizations'],
    queryFn: ({ signal }) => client.organizations.list({ signal }),
  });
}

/** The record of this organization; undefined until it is loaded. */
export function useOrganization(): Organization | undefined {
  const { id } = useLive();
  return useOrganizations().data?.find((one) => one.id === id);
}

export function useMembers(): UseQueryResult<readonly Member[]> {
  const { client } = useSession();
  const { id } = useLive();
  return useQuery({ queryKey: ['members', id], queryFn: ({ signal }) => client.members.list(id, { signal }) });
}

/** A small fleet is asked more often: whether a change is in force is what people wait for. */
const statusesEvery = (devices: number): number => (devices <= 200 ? 3_000 : 15_000);

/** What agents last said, by device. It makes no events, so it is asked for now and then. */
export function useStatuses(): ReadonlyMap<string, DeviceStatus> {
  const { client } = useSession();
  const live = useLive();
  const { id } = live;
  const { data } = useQuery({
    queryKey: ['statuses', id],
    queryFn: ({ signal }) => client.statuses.list(id, { signal }),
    select: byDevice,
    refetchInterval: () => statusesEvery(live.read().devices.length),
    // Comparing ten thousand answers with the last ones costs more than it saves.
    structuralSharing: false,
  });
  // Nobody keeps what agents said in the past.
  return usePast() === undefined ? (data ?? none) : none;
}
const none: ReadonlyMap<string, DeviceStatus> = new Map();
const byDevice = (statuses: readonly DeviceStatus[]): ReadonlyMap<string, DeviceStatus> =>
  new Map(statuses.map((status) => [status.device_id, status]));

export interface Rights {
  readonly me: WhoAmI;
  /** Owns the organization; with a read-only credential nothing may be changed all the same. */
  readonly isOwner: boolean;
  readonly mayWrite: boolean;
  /** May change what is the organization's. */
  readonly governs: boolean;
  readonly editGroup: (group: SecurityGroup) => boolean;
  readonly editDevice: (device: Device) => boolean;
  /** Whether the group may stand in the device's list at all. */
  readonly attachable: (group: SecurityGroup, device: Device) => boolean;
}

const rightsOf = (me: WhoAmI, role: MemberRole | undefined): Rights => {
  const isOwner = role === 'owner';
  const mayWrite = me.scope !== 'read-only';
  return {
    me,
    isOwner,
    mayWrite,
    governs: isOwner && mayWrite,
    editGroup: (group) => mayWrite && (group.user_id === undefined ? isOwner : group.user_id === me.id),
    editDevice: (device) => mayWrite && (isOwner || device.user_id === me.id),
    attachable: (group, device) =>
      group.is_default !== true &&
      group.guardrail === undefined &&
      (group.user_id === undefined || group.user_id === device.user_id),
  };
};

/** The role of the user in the organization. `isKnown`: the server has said it, or could not say it; then nothing is offered. */
export interface OwnRole {
  readonly role: MemberRole | undefined;
  readonly isKnown: boolean;
}

/** One question for all parts of a page, from when `isAsked` on. */
export function useOwnRole(organization: string, isAsked: boolean): OwnRole {
  const { me, client } = useSession();
  const { data, isPending } = useQuery({
    queryKey: ['members', organization, me.id],
    queryFn: ({ signal }) => client.members.get(organization, me.id, { signal }),
    enabled: isAsked,
  });
  const role = data?.role;
  return useMemo(() => ({ role, isKnown: !isPending }), [role, isPending]);
}

export const RoleContext = createContext<OwnRole>({ role: undefined, isKnown: false });

/** What is not allowed is not offered; the server decides all the same. */
export function useRights(): Rights {
  const { me } = useSession();
  const { role } = use(RoleContext);
  return useMemo(() => rightsOf(me, role), [me, role]);
}

export function useNames(): (userId: string) => string {
  const { data } = useMembers();
  const { me } = useSession();
  const names = new Map<string, string>(data?.map(({ user_id, username }) => [user_id, username]));
  return (userId) => (userId === me.id ? `${me.username} (you)` : (names.get(userId) ?? 'someone'));
}
