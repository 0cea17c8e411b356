/** Owns the icons: a few strokes each, drawn here so that no icon set has to be loaded. */
import type { ReactNode } from 'react';

function Icon({ children, size = 18 }: { readonly children: ReactNode; readonly size?: number }): ReactNode {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.8"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      {children}
    </svg>
  );
}

const drawn =
  (...paths: readonly string[]) =>
  ({ size }: { readonly size?: number }): ReactNode => (
    <Icon {...(size === undefined ? {} : { size })}>
      {paths.map((d) => (
        <path key={d} d={d} />
      ))}
    </Icon>
  );

export const OverviewIcon = drawn('M4 4h7v9H4z', 'M15 4h5v5h-5z', 'M15 13h5v7h-5z', 'M4 17h7v3H4z');
export const DeviceIcon = drawn('M4 5h16v10H4z', 'M8 19h8', 'M12 15v4');
export const GroupIcon = drawn('M12 3l7 3v5c0 4.6-3 8.3-7 10-4-1.7-7-5.4-7-10V6z', 'M9 12l2 2 4-4');
export const ReachIcon = drawn(
  'M6 8.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5z',
  'M18 20.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5z',
  'M8.5 6H15a3 3 0 0 1 3 3v6',
  'M6 9v11',
);
export const EventsIcon = drawn('M3 12h4l3-7 4 14 3-7h4');
export const PeopleIcon = drawn(
  'M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7z',
  'M2.5 20c.5-3.5 3-5.5 6.5-5.5s6 2 6.5 5.5',
  'M16 4.5a3.5 3.5 0 0 1 0 6.3',
  'M18 14.8c2 .7 3.2 2.5 3.5 5.2',
);
export const FlowIcon = drawn('M3 8h13', 'M12 4l4 4-4 4', 'M21 16H8', 'M12 12l-4 4 4 4');
export const PlusIcon = drawn('M12 5v14', 'M5 12h14');
export const TrashIcon = drawn('M4 7h16', 'M9 7V4h6v3', 'M6 7l1 13h10l1-13', 'M10 11v5', 'M14 11v5');
export const CopyIcon = drawn('M9 9h11v11H9z', 'M5 15H4V4h11v1');
export const FilterIcon = drawn('M4 6h16', 'M7 12h10', 'M10 18h4');
export const SearchIcon = drawn('M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14z', 'M20 20l-4-4');
export const SunIcon = drawn(
  'M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8z',
  'M12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6L19 19M5 19l1.4-1.4M17.6 6.4L19 5',
);
export const MoonIcon = drawn('M20 14.5A8 8 0 0 1 9.5 4 8 8 0 1 0 20 14.5z');
export const DownIcon = drawn('M6 9l6 6 6-6');
export const UpIcon = drawn('M6 15l6-6 6 6');
export const MenuIcon = drawn('M4 7h16', 'M4 12h16', 'M4 17h16');
export const OutIcon = drawn('M10 4H5v16h5', 'M14 8l4 4-4 4', 'M18 12H9');
export const CheckIcon = drawn('M5 12.5l4.5 4.5L19 7');
export const CrossIcon = drawn('M6 6l12 12', 'M18 6L6 18');
export const WarnIcon = drawn('M12 4l9 16H3z', 'M12 10v4', 'M12 17v.2');
export const InboundIcon = drawn('M12 4v12', 'M7 11l5 5 5-5', 'M5 20h14');
export const OutboundIcon = drawn('M12 16V4', 'M7 9l5-5 5 5', 'M5 20h14');
export const BackIcon = drawn('M15 6l-6 6 6 6');
export const ClockIcon = drawn('M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18z', 'M12 7v5l3 2');
export const TestIcon = drawn('M9 3h6', 'M10 3v6l-5 9a2 2 0 0 0 2 3h10a2 2 0 0 0 2-3l-5-9V3', 'M7.5 15h9');
export const EditIcon = drawn('M4 20h4L19 9l-4-4L4 16z', 'M13 7l4 4');
export const KeyIcon = drawn('M8 15a4 4 0 1 0 0-8 4 4 0 0 0 0 8z', 'M12 11h9', 'M18 11v4');

/** A ring with gaps around what it guards. */
export function Logo({ size = 28 }: { readonly size?: number }): ReactNode {
  return (
    <svg width={size} height={size} viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" fill="#0b5e5d" />
      <circle
        cx="16"
        cy="16"
        r="9"
        fill="none"
        stroke="#fff"
        strokeWidth="3"
        strokeDasharray="11.2 2.94"
        strokeDashoffset="-1.5"
      />
      <circle cx="16" cy="16" r="3" fill="#fff" />
    </svg>
  );
}
