import java.io.*;
import java.nio.*;
import java.nio.charset.*;
import java.util.*;
import java.util.zip.*;

/**
 * Asks a Java runtime for its charsets of one and two bytes a character: java Charsets.java charsets.zip written.txt
 *
 * An entry of charsets.zip is a charset, and its comment the other names with spaces between. It holds the byte count and the bytes of what stands for
 * characters that it lacks; then big-endian 16-bit words: for each byte its character (FFFF: none); the count of pairs, for each the two bytes, then for each its character, both as the difference to the one before; the count of
 * characters that are written otherwise than by the first code that is read as them, and for each the character, the count of bytes
 * (0: it is not written) and the code.
 *
 * written.txt has what String.getBytes makes of some texts: a charset, the text and the bytes, both in hexadecimal, the text in UTF-16.
 */
public final class Charsets {
    static final Set<String> DOUBLE = Set.of("Big5", "EUC-KR", "GB2312", "GBK", "Shift_JIS", "windows-31j", "x-windows-949", "x-windows-950");

    static int decode(Charset c, byte... b) {
        try {
            CharBuffer s = c.newDecoder().onMalformedInput(CodingErrorAction.REPORT).onUnmappableCharacter(CodingErrorAction.REPORT).decode(ByteBuffer.wrap(b));
            return s.length() == 1 ? s.get(0) : 0xFFFF;
        } catch (CharacterCodingException e) {
            return 0xFFFF;
        }
    }

    public static void main(String[] args) throws Exception {
        try (ZipOutputStream zip = new ZipOutputStream(new FileOutputStream(args[0])); PrintWriter written = new PrintWriter(args[1])) {
            zip.setLevel(9);
            for (Charset c : Charset.availableCharsets().values()) {
                boolean one = c.canEncode() && c.getClass().getSuperclass() == Charset.class && c.newDecoder().getClass().getName().equals("sun.nio.cs.SingleByte$Decoder");
                if (!one && !DOUBLE.contains(c.name())) {
                    continue;
                }
                ByteArrayOutputStream bytes = new ByteArrayOutputStream();
                DataOutputStream d = new DataOutputStream(bytes);
                byte[] replacement = c.newEncoder().replacement();
                d.writeByte(replacement.length);
                d.write(replacement);
                Map<Integer, Integer> first = new HashMap<>(); // a character -> its first code
                for (int i = 0; i < 256; i++) {
                    int x = decode(c, (byte) i);
                    d.writeShort(x);
                    if (x != 0xFFFF) {
                        first.putIfAbsent(x, i);
                    }
                }
                List<int[]> pairs = new ArrayList<>();
                for (int i = 0; !one && i < 0x10000; i++) {
                    int x = decode(c, (byte) (i >> 8)) == 0xFFFF ? decode(c, (byte) (i >> 8), (byte) i) : 0xFFFF;
                    if (x != 0xFFFF) {
                        pairs.add(new int[] {i, x});
                        first.putIfAbsent(x, i);
                    }
                }
                d.writeShort(pairs.size());
                for (int column = 0; column < 2; column++) {
                    int last = 0;
                    for (int[] p : pairs) {
                        d.writeShort(p[column] - last);
                        last = p[column];
                    }
                }
                List<int[]> other = new ArrayList<>();
                CharsetEncoder e = c.newEncoder();
                StringBuilder known = new StringBuilder();
                for (int x = 0; x < 0xFFFF; x++) {
                    if (Character.isSurrogate((char) x)) {
                        continue;
                    }
                    int code = -1, n = 0;
                    if (e.canEncode((char) x)) {
                        byte[] b = String.valueOf((char) x).getBytes(c);
                        n = b.length;
                        code = n == 1 ? b[0] & 0xFF : (b[0] & 0xFF) << 8 | b[1] & 0xFF;
                        if (n > 2) {
                            throw new IllegalStateException(c + " " + x);
                        }
                        if (x % 7 == 0) {
                            known.append((char) x);
                        }
                    }
                    if (first.getOrDefault(x, -1) != code) {
                        other.add(new int[] {x, n, Math.max(code, 0)});
                    }
                }
                d.writeShort(other.size());
                for (int[] o : other) {
                    d.writeShort(o[0]);
                    d.writeShort(o[1]);
                    d.writeShort(o[2]);
                }
                ZipEntry z = new ZipEntry(c.name());
                z.setTime(315532800000L);
                z.setComment(String.join(" ", new TreeSet<>(c.aliases())));
                zip.putNextEntry(z);
                zip.write(bytes.toByteArray());
                zip.closeEntry();

                Random r = new Random(c.name().hashCode());
                for (int i = 0; i < (one ? 4 : 40); i++) {
                    StringBuilder s = new StringBuilder();
                    for (int k = 0; k < 12; k++) {
                        switch (r.nextInt(10)) {
                            case 0: s.append((char) r.nextInt(0x10000)); break;
                            case 1: s.appendCodePoint(0x10000 + r.nextInt(0x100000)); break;
                            case 2: s.append((char) r.nextInt(0x180)); break;
                            default: s.append(known.charAt(r.nextInt(known.length())));
                        }
                    }
                    StringBuilder units = new StringBuilder();
                    for (char u : s.toString().toCharArray()) {
                        units.append(String.format("%04x", (int) u));
                    }
                    written.println(c.name() + " " + units + " " + HexFormat.of().formatHex(s.toString().getBytes(c)));
                }
            }
        }
    }
}
