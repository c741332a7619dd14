# Serves the files of the current folder on a port of the loopback address, for machines without Python.
use strict;
use warnings;
use IO::Socket::INET;

my %types = (html => 'text/html; charset=utf-8', css => 'text/css', js => 'text/javascript', json => 'application/json',
  svg => 'image/svg+xml', png => 'image/png', jpg => 'image/jpeg', gif => 'image/gif', txt => 'text/plain; charset=utf-8');
my $server = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $ARGV[0], Listen => 64, ReuseAddr => 1)
  or die "cannot listen on port $ARGV[0]: $!\n";
$SIG{CHLD} = 'IGNORE';

while (1) {
  my $client = $server->accept or next;
  if (my $child = fork) { next }
  alarm 30;
  answer($client);
  exit;
}

sub answer {
  my ($client) = @_;
  my ($method, $path) = (<$client> // '') =~ m{^(GET|HEAD) /([^\s?]*)} or return;
  while (defined(my $header = <$client>)) { last if $header =~ /^\r?\n$/ }
  $path =~ s/%([0-9a-fA-F]{2})/chr hex $1/ge;
  return respond($client, 404, 'text/plain', "Not found\n") if $path =~ /\0/ || grep { $_ eq '..' } split m{/}, $path;
  $path = '.' if $path eq '';
  return respond($client, 301, 'text/plain', '', 'Location: ' . ($path =~ m{([^/]+)$})[0] . "/\r\n")
    if -d $path && $path ne '.' && $path !~ m{/$};
  $path = "$path/index.html" if -e "$path/index.html";
  return respond($client, 200, $types{html}, list($path)) if -d $path;
  open my $file, '<:raw', $path or return respond($client, 404, 'text/plain', "Not found\n");
  my ($ending) = $path =~ /\.(\w+)$/;
  local $/;
  respond($client, 200, $types{lc($ending // '')} // 'application/octet-stream', $method eq 'HEAD' ? '' : scalar <$file>);
}

sub list {
  my ($path) = @_;
  opendir my $folder, $path or return '';
  my $rows = join '', map {
    my $name = -d "$path/$_" ? "$_/" : $_;
    (my $link = $name) =~ s/([^\w.\/-])/sprintf '%%%02X', ord $1/ge;
    $name =~ s/([&<>"])/'&#' . ord($1) . ';'/ge;
    "<li><a href=\"./$link\">$name</a></li>\n"
  } sort grep { !/^\./ } readdir $folder;
  return "<!doctype html><meta charset=\"utf-8\"><title>Files</title><ul>\n$rows</ul>\n";
}

sub respond {
  my ($client, $status, $type, $body, $more) = @_;
  $more //= '';
  print $client "HTTP/1.1 $status\r\nContent-Type: $type\r\nContent-Length: " . length($body)
    . "\r\n${more}Cache-Control: no-store\r\nConnection: close\r\n\r\n$body";
}
