/** Owns the pages that the navigation leads to. */
import { AuditIcon, DeviceIcon, EventsIcon, GroupIcon, KeyIcon, PeopleIcon, ReachIcon } from '../components/icons.tsx';

export const places = [
  { to: '/o/$org/devices', name: 'Devices', Icon: DeviceIcon },
  { to: '/o/$org/groups', name: 'Groups', Icon: GroupIcon },
  { to: '/o/$org/reach', name: 'Reachability', Icon: ReachIcon },
  { to: '/o/$org/events', name: 'Events', Icon: EventsIcon },
  { to: '/o/$org/keys', name: 'Enrollment keys', Icon: KeyIcon },
  { to: '/o/$org/members', name: 'Organization', Icon: PeopleIcon },
  { to: '/o/$org/audit', name: 'Audit', Icon: AuditIcon, forOwner: true },
] as const;
