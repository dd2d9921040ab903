# Completion of ackd's commands for fish. Use: ackd completion fish | source
function __ackd_complete
    set -l typed (commandline -opc)
    set -l current (commandline -ct)
    set -e typed[1]
    set -l lines (env _ACKD_COMPLETE=fish ackd $typed "$current" </dev/null 2>/dev/null)
    if set -q lines[2]
        printf '%s\n' $lines[2..-1]
        return
    end
    set -l option (string match -r -- '^--[^=]+=' "$current")
    set -l path (string replace -r -- '^--[^=]+=' '' "$current")
    switch "$lines[1]"
        case files
            string replace -r -- '^' "$option" (__fish_complete_path "$path")
        case directories
            string replace -r -- '^' "$option" (__fish_complete_directories "$path" '')
    end
end
complete --command ackd --no-files --keep-order --arguments '(__ackd_complete)'
