/**
 * Owns the helper that carries bytes between a pipe and the kernel's netlink sockets: a short Perl script without
 * modules.
 */

/**
 * A frame is the length of its bytes (four bytes, little endian), the number of a socket (one byte), and the bytes. The
 * lower five bits of the number are the netlink protocol; the other bits distinguish sockets of one protocol. The helper
 * writes each input frame to its socket in one write. What a socket returns at one time comes out as one frame, because
 * a thousand short answers are not worth a thousand wake-ups. Most answers are ready when the write returns, so the
 * helper reads at once. A short frame has one answer; anything further is found like a listing. A listing comes out part
 * by part, as the kernel returns it, and other sockets get their turn in between. A device that joins waits for this
 * path, and each additional operation costs a microsecond where a hundred helpers share a machine. The helper does not
 * interpret what it carries. It ends with its input, and exits with an error message where a call fails.
 *
 * 16 and 3 are AF_NETLINK and SOCK_RAW; 64 is MSG_DONTWAIT, 11 EAGAIN; 1 and 33, SO_RCVBUFFORCE, so that answers to many requests find room, and 32, SO_SNDBUFFORCE, so that a
 * large batch goes out in one write; 270 and 10, NETLINK_CAP_ACK, so that they do not repeat the requests. 105 is ENOBUFS: of very many errors the last
 * ones found no room, and the first ones are there to be read. What a large batch took of memory
 * is given back.
 */
const helperScript = String.raw`
use strict;
my ($input, $watched, $ready, $more, %sockets) = ('', '', '', '');
vec($watched, 0, 1) = 1;
sub opened {
  my $number = shift;
  return $sockets{$number} //= do {
    socket(my $socket, 16, 3, $number & 31) or die "no netlink socket $number: $!\n";
    setsockopt($socket, 1, 33, pack('i', 4 << 20));
    setsockopt($socket, 1, 32, pack('i', 1 << 29));
    setsockopt($socket, 270, 10, pack('i', 1));
    vec($watched, fileno($socket), 1) = 1;
    $socket;
  };
}
sub put {
  my $at = 0;
  while ($at < length $_[0]) { $at += syswrite(STDOUT, $_[0], length($_[0]) - $at, $at) || exit 0; }
}
sub nothing_left { $! == 11 or $! == 105 or die "netlink cannot be read: $!\n"; }
sub pass_on {
  my ($number, $bytes) = (shift, '');
  while (length $bytes < 1 << 14) {
    if (defined recv($sockets{$number}, $more, 1 << 20, 64)) { $bytes .= $more; next; }
    nothing_left();
    last;
  }
  put(pack('VC', length $bytes, $number) . $bytes) if length $bytes;
}
while (1) {
  my $count = select($ready = $watched, undef, undef, undef);
  next if $count < 0;
  my $asked = vec($ready, 0, 1);
  if ($count > $asked) {
    for my $number (keys %sockets) { pass_on($number) if vec($ready, fileno($sockets{$number}), 1); }
  }
  next unless $asked;
  sysread(STDIN, $input, 1 << 20, length $input) or exit 0;
  while (length $input >= 5) {
    my ($length, $number) = unpack('VC', $input);
    last if length $input < 5 + $length;
    my $socket = $sockets{$number} // opened($number);
    defined syswrite($socket, $input, $length, 5) or die "netlink cannot be written: $!\n";
    substr($input, 0, 5 + $length, '');
    if ($length > 1 << 20) { my $rest = $input; undef $input; $input = $rest; }
    if ($length > 1 << 10) { pass_on($number); }
    elsif (defined recv($socket, $more, 1 << 20, 64)) { put(pack('VC', length $more, $number) . $more); }
    else { nothing_left(); }
  }
}
`;

/** The command line that starts it. Perl's base package is on every Debian. */
export const helperArgv: readonly string[] = ['perl', '-e', helperScript];
